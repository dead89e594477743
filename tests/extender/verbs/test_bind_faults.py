"""The verb bind while the API server errs, loses answers or falls silent."""

import pytest

from tests.extender.calls import bind, bindings, bound
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, pod

BINDING = r"/pods/p/binding$"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "No"), (403, "No"), (404, "NotFound"), (404, ""), (422, "No"), (429, "No")],
)
def test_a_binding_that_is_refused_leaves_nothing(
    mini: MiniCluster, status: int, reason: str
) -> None:
    mini.api.faults.fail("POST", BINDING, status=status, reason=reason)
    created = mini.create(pod("p", 50, 32))
    error = bind(mini, created, "gpu1")
    assert ("is gone" if reason == "NotFound" else str(status)) in error
    assert mini.free_cores("gpu1") == 200
    assert len(bindings(mini)) == 1


@pytest.mark.parametrize("status", [409, 500, 503, 504])
def test_a_binding_that_failed_once_is_tried_again(mini: MiniCluster, status: int) -> None:
    mini.api.faults.fail("POST", BINDING, status=status)
    assert bind(mini, mini.create(pod("p", 50, 32)), "gpu1") == ""
    eventually(lambda: mini.free_cores("gpu1") == 150)


@pytest.mark.parametrize("status", [409, 500])
def test_a_binding_that_always_fails_is_an_error_and_leaves_nothing(
    mini: MiniCluster, status: int
) -> None:
    mini.api.faults.fail("POST", BINDING, status=status, times=100)
    created = mini.create(pod("p", 50, 32))
    error = bind(mini, created, "gpu1")
    assert f"was not bound in 5 tries: API server answered {status}" in error
    assert mini.free_cores("gpu1") == 200
    assert len(bindings(mini)) <= 5


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_binding_whose_answer_is_lost_is_found(mini: MiniCluster, when: str) -> None:
    mini.api.faults.drop("POST", BINDING, when=when)
    assert bind(mini, mini.create(pod("p", 50, 32)), "gpu1") == ""
    assert mini.api.get("pods", "p")["spec"]["nodeName"] == "gpu1"
    eventually(lambda: mini.free_cores("gpu1") == 150)
    assert len(bindings(mini)) == (1 if when == "after" else 2)


def test_a_pod_that_changed_since_is_read_again(mini: MiniCluster) -> None:
    bound(mini, "first", "gpu1", 50, 32)  # an instance that just wrote relies on its watch
    created = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.hold_watches()
    wanted = {"metadata": {"annotations": {KEYS.gpu_uuid: "GPU-gpu1-1"}}}
    mini.api.edit("pods", "p", wanted)
    assert bind(mini, created, "gpu1") == ""
    assert mini.annotations("p")["tencent.com/predicate-gpu-idx-0"] == "1"
    assert len(bindings(mini)) == 2


def test_a_server_that_falls_silent_keeps_the_cards_reserved(hurried: MiniCluster) -> None:
    created = hurried.sees(hurried.create(pod("p", 50, 32)))
    faults = hurried.api.faults
    held = faults.hold("POST", BINDING)
    faults.hold("GET", "/pods/p$", times=9)
    faults.hold("PATCH", "/pods/p/status$", times=9)
    assert "/pods/p" in bind(hurried, created, "gpu1")
    assert hurried.free_cores("gpu1") == 150
    held.release()  # the server carries the binding out after all
    eventually(lambda: "nodeName" in hurried.api.get("pods", "p")["spec"])
    hurried.sees(hurried.api.get("pods", "p"))
    assert hurried.free_cores("gpu1") == 150
    assert bind(hurried, created, "gpu1") == ""


def test_a_late_binding_can_not_happen_once_its_cards_are_free(hurried: MiniCluster) -> None:
    created = hurried.sees(hurried.create(pod("p", 50, 32)))
    held = [hurried.api.faults.hold("POST", BINDING) for _ in range(5)]
    assert bind(hurried, created, "gpu1") != ""
    assert hurried.free_cores("gpu1") == 200
    for fault in held:
        fault.release()
    other = bound(hurried, "other", "gpu1", 200)
    assert "nodeName" not in hurried.api.get("pods", "p")["spec"]
    assert other["spec"]["nodeName"] == "gpu1"


def test_a_proxys_404_takes_away_no_node(mini: MiniCluster) -> None:
    """An API server gives a reason; a proxy that finds no server gives none."""
    mini.api.faults.fail("GET", "/nodes/gpu1$", status=404, reason="")
    created = mini.create(pod("p", 50, 32))
    assert "404" in bind(mini, created, "gpu1")
    assert bind(mini, created, "gpu1") == ""
