"""What the kubelet or the API server says may be anything: no pod gets a wrong card by it."""

import contextlib
import random
import urllib.request

import pytest

from gpustack.adapters.podresources import podresources_pb2 as pb
from gpustack.wire.annotations import annotations_of
from tests.agent.host import CORE, KEYS, Host, card_of, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError

_LONG_NAME = "n" * 253  # the longest of a pod: a DNS subdomain


def _answer(*pods: tuple[str, str, list[str]]) -> bytes:
    """Return an answer of List; of Get, where there is one pod."""
    made = pb.ListPodResourcesResponse()
    for name, holder, ids in pods:
        pod = made.pod_resources.add(namespace="default", name=name)
        pod.containers.add(name=holder).devices.add(resource_name=CORE, device_ids=ids)
    return bytes(made.SerializeToString())


def _random(seed: int) -> bytes:
    return random.Random(seed).randbytes(300)  # noqa: S311


_ALL_CORES = [f"{card}-{core}" for card in range(2) for core in range(100)]
NONSENSE = {
    "nothing": b"",
    "random bytes": _random(1),
    "other random bytes": _random(2),
    "a text that is not UTF-8": b"\x0a\x04\x0a\x02\xff\xfe",
    "fields that end too early": _answer(("p", "c0", _ALL_CORES))[:-7],
    "all cores are another pod's": _answer(("stranger", "c0", _ALL_CORES)),
    "all cores are everybody's": _answer(*[(name, "c0", _ALL_CORES) for name in ("p", "q", "p")]),
    "IDs that no card has": _answer(("p", "c0", ["", "x", "9-9", "-1", "0" * 1_000_000])),
    "containers that are not there": _answer(("p", "c" * 100_000, ["0-1"])),
    "more than is read": bytes(17 << 20),
}


def _is_ready(host: Host) -> bool:
    address = f"http://127.0.0.1:{host.agent.web.ports[0]}/readyz"
    with urllib.request.urlopen(address, timeout=10) as answer:
        return bool(answer.status == 200)


@pytest.mark.long  # the agent asks again for seconds
@pytest.mark.parametrize("said", NONSENSE)
def test_a_kubelet_that_says_nonsense_of_pods_misleads_nobody(host: Host, said: str) -> None:
    host.start_agent()
    pods = {name: host.share(name, minor) for name, minor in (("q", 0), ("p", 1))}
    for pod in pods.values():
        host.kubelet.know(pod)
    host.kubelet.nonsense = NONSENSE[said]
    got = {}
    for name, pod in pods.items():
        with contextlib.suppress(AdmissionError):
            card = card_of(host.kubelet.admit(pod)["c0"])
            host.kubelet.start_container(pod, "c0", CORE)
            got[name] = card
    host.kubelet.nonsense = None
    for name, card in got.items():
        assert card == {"q": "/dev/nvidia0", "p": "/dev/nvidia1"}[name]
    assert _is_ready(host)
    last = host.share("last", 1 if "p" not in got else 0)
    assert card_of(host.kubelet.admit(last)["c0"])


def test_an_annotation_of_ten_megabytes_stops_no_other_pod(host: Host) -> None:
    """No API server takes it (256 KiB are the limit); an agent needn't trust that."""
    host.start_agent()
    huge = host.share("huge", 0)
    key = f"{KEYS.domain}/gpu-model"
    host.api.edit("pods", "huge", {"metadata": {"annotations": {key: "," * 10_000_000}}})
    uid = huge["metadata"]["uid"]
    host.wait_until(lambda: key in annotations_of(host.agent.pods.get(uid) or {}))
    assert card_of(host.kubelet.admit(host.share("mine", 1))["c0"]) == "/dev/nvidia1"
    assert card_of(host.kubelet.admit(huge)["c0"]) == "/dev/nvidia0"
    assert _is_ready(host)


def test_the_longest_names_get_their_cards_and_files(host: Host) -> None:
    host.start_agent()
    longest = "c" * 63  # a DNS label
    written = decision((1,), cores=50, memory=32)
    made = make_pod(_LONG_NAME, container(longest, 50, 32), annotations=written)
    made["metadata"]["uid"] = "11111111-2222-4333-8444-555555555555"
    pod = host.create(made)
    answer = host.kubelet.admit(pod)[longest]
    assert card_of(answer) == "/dev/nvidia1"
    host.kubelet.start_container(pod, longest, CORE)
    assert (host.folder(pod, longest) / "limits").is_file()
