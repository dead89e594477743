"""A dead watch fails no good pod: the agent asks the API server before it refuses a pod."""

import itertools
import time

import pytest

from gpustack.adapters.cri import RuntimeContainer
from gpustack.wire.annotations import annotations_of
from gpustack.wire.pods import finished
from tests.agent.host import CORE, KEYS, Host, Pod, card_of, container, make_pod
from tests.fakes.kubelet import AdmissionError


def _full_card_in_silence(host: Host) -> tuple[Pod, Pod, str]:
    """A pod that runs on a card, one with a decision for all of that card, and a dead watch."""
    host.start_agent()
    pod = host.share("one", 1)
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    running = host.cri.run(pod["metadata"]["uid"], "c0")
    big = host.whole_card("big", 1)
    host.wait_until(lambda: host.agent.pods.get(big["metadata"]["uid"]) is not None)
    host.api.hold_watches()
    return pod, big, running


@pytest.mark.parametrize("how", ["ended", "deleted", "replaced"])
def test_a_pod_that_ended_unseen_frees_its_card_for_the_next(host: Host, how: str) -> None:
    pod, big, running = _full_card_in_silence(host)
    host.cri.exit(running)
    if how == "ended":
        host.end(pod)
    else:
        host.api.delete("pods", "one")
        host.kubelet.remove(pod)
    if how == "replaced":
        host.api.create("pods", {**pod, "metadata": {**pod["metadata"], "uid": "uid-next"}})
        host.api.edit("pods", "one", {"metadata": {"annotations": None}})
    assert card_of(host.kubelet.admit(big)["c0"]) == "/dev/nvidia1"
    assert host.agent.records.get(pod["metadata"]["uid"]) is None


def test_cards_kept_for_a_pod_that_is_gone_are_free(host: Host) -> None:
    host.start_agent()
    waiting = host.whole_card("waiting", 0)
    other = host.whole_card("other", 1)
    host.kubelet.admit(other)
    big = host.undecided("big")
    host.wait_until(lambda: host.agent.pods.get(big["metadata"]["uid"]) is not None)
    host.api.hold_watches()
    host.api.delete("pods", waiting["metadata"]["name"])
    assert card_of(host.kubelet.admit(big)["c0"]) == "/dev/nvidia0"


@pytest.mark.long
def test_a_pod_whose_container_runs_keeps_its_card_all_the_same(host: Host) -> None:
    pod, big, _ = _full_card_in_silence(host)
    host.api.delete("pods", "one")
    with pytest.raises(AdmissionError, match="NoWholeCard"):
        host.kubelet.admit(big)
    assert host.agent.records.get(pod["metadata"]["uid"]) is not None


@pytest.mark.long
@pytest.mark.parametrize("silent", [False, True])
def test_a_refusal_says_that_the_api_server_could_not_be_asked(host: Host, silent: bool) -> None:
    pod, big, running = _full_card_in_silence(host)
    host.cri.exit(running)
    host.end(pod)
    if silent:
        host.api.faults.hold("GET", "/api/v1/", times=1000)
    else:
        host.api.faults.fail("GET", "/api/v1/", status=503, times=1000)
    with pytest.raises(AdmissionError, match=r"NoWholeCard: .*doesn't say which pods have ended"):
        host.kubelet.admit(big)
    assert host.agent.records.get(pod["metadata"]["uid"]) is not None
    host.api.faults.release()


def test_a_late_event_of_the_watch_does_not_undo_the_list(host: Host) -> None:
    pod, big, running = _full_card_in_silence(host)
    host.cri.exit(running)
    host.end(pod)
    host.kubelet.admit(big)
    asked = len(host.api.asked("GET", "/api/v1/pods$"))
    _annotate(host, "big")
    host.api.release_watches()
    host.wait_until(lambda: _is_annotated(_seen(host, big)))
    assert finished(_seen(host, pod))
    assert len(host.api.asked("GET", "/api/v1/pods$")) == asked


def test_a_server_that_was_restored_from_a_copy_is_followed(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.wait_until(lambda: "spec" in _seen(host, pod))
    host.agent.pods.refresh(5.0)
    with host.api.store.changed:
        host.api.store.version = host.api.store.oldest = 10
        host.api.store.history.clear()
    host.api.faults.fail("GET", "/api/v1/pods$", status=410, reason="Expired")
    host.api.drop_connections()
    listed = len(host.api.asked("GET", "/api/v1/pods$"))
    host.wait_until(lambda: len(host.api.asked("GET", "/api/v1/pods$")) >= listed + 3)
    _annotate(host, "p")
    host.wait_until(lambda: _is_annotated(_seen(host, pod)))


def test_only_the_parts_of_a_pod_that_are_read_are_kept(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.api.edit("pods", "p", {"metadata": {"labels": {"any": "label"}, "annotations": {"a": ""}}})
    _annotate(host, "p")
    host.wait_until(lambda: _is_annotated(_seen(host, pod)))
    followed = _seen(host, pod)
    host.agent.pods.refresh(5.0)
    for seen in (followed, _seen(host, pod)):
        assert "labels" not in seen["metadata"]
        assert "a" not in annotations_of(seen)


def _annotate(host: Host, name: str) -> None:
    host.api.edit("pods", name, {"metadata": {"annotations": {KEYS.core_limit: "60"}}})


def _is_annotated(pod: Pod) -> bool:
    return KEYS.core_limit in annotations_of(pod)


def _seen(host: Host, pod: Pod) -> Pod:
    return dict(host.agent.pods.get(pod["metadata"]["uid"]) or {"metadata": {}})


def test_changes_of_other_pods_keep_no_refusal_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    busy = host.share("busy", 0)
    containers = host.agent.runtime.containers
    looks = itertools.count()

    def change_meanwhile() -> tuple[RuntimeContainer, ...] | None:
        _, version = host.agent.pods.snapshot()
        labels = {"metadata": {"labels": {"look": str(next(looks))}}}
        host.api.edit("pods", busy["metadata"]["name"], labels)
        assert host.agent.pods.wait_for_change(version, time.monotonic() + 10)
        return containers()

    monkeypatch.setattr(host.agent.runtime, "containers", change_meanwhile)
    with pytest.raises(AdmissionError, match="NoCandidate"):
        host.kubelet.admit(make_pod("unknown", container("c0", 100)))


@pytest.mark.parametrize("kind", ["MODIFIED", "DELETED"])
def test_an_event_from_before_the_list_is_passed_over(host: Host, kind: str) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.wait_until(lambda: "spec" in _seen(host, pod))
    host.api.hold_watches()
    host.end(pod)
    host.agent.pods.refresh(5.0)
    host.agent.pods._event(kind, pod)
    assert finished(_seen(host, pod))
