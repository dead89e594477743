"""GetPreferredAllocation never fails a pod, and decides nothing that Allocate can't decide."""

import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from gpustack.adapters.deviceplugin import ContainerResponse
from gpustack.adapters.deviceplugin import deviceplugin_pb2 as pb
from gpustack.agent.containers.allocation_records import open_records
from gpustack.agent.kubelet import device_ids
from gpustack.agent.kubelet.call_durations import CallDurations
from gpustack.agent.kubelet.plugin import KubeletCalls, ResourcePlugin
from tests.agent.health.cards import card_inventory
from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, card_of, container, make_pod


def _ids(*numbers: int) -> list[str]:
    return [f"{CORE}-{number}" for number in numbers]


def _prefer(host: Host, available: Sequence[str], size: int) -> list[str]:
    request = pb.PreferredAllocationRequest()
    request.container_requests.add(available_deviceIDs=available, allocation_size=size)
    answer = host.kubelet.plugins[CORE].call(
        "GetPreferredAllocation", request, pb.PreferredAllocationResponse
    )
    return list(answer.container_responses[0].deviceIDs)


def _know(host: Host, pod: Pod) -> Pod:
    """The kubelet begins with a pod that our watch shows."""
    host.wait_until(lambda: host.agent.pods.get(pod["metadata"]["uid"]) is not None)
    host.kubelet.know(pod)
    return pod


def _allocate(host: Host, ids: Sequence[str]) -> Any:
    request = pb.AllocateRequest()
    request.container_requests.add(devices_ids=ids)
    answer = host.kubelet.plugins[CORE].call("Allocate", request, pb.AllocateResponse)
    return answer.container_responses[0]


def test_the_kubelet_is_not_asked_again_while_it_hands_devices_out(host: Host) -> None:
    """A List meanwhile can make it forget the devices in its hand, and give them out twice."""
    host.start_agent()
    _know(host, host.share("p", 1))
    ids = _prefer(host, _ids(*range(100)), 50)
    asked = host.kubelet.calls
    assert asked > 0
    assert card_of(_allocate(host, list(reversed(ids)))) == "/dev/nvidia1"
    assert host.kubelet.calls == asked


def test_allocate_decides_where_the_kubelet_takes_other_devices(host: Host) -> None:
    host.start_agent()
    first, second = host.share("first", 0), host.share("second", 1, now_ns=2)
    _know(host, first)
    _prefer(host, _ids(*range(100)), 50)
    host.kubelet.reject(first)
    _know(host, second)
    assert card_of(_allocate(host, _ids(*range(100, 150)))) == "/dev/nvidia1"


def test_a_restarted_kubelet_means_another_container_by_the_same_devices(host: Host) -> None:
    host.start_agent()
    first, second = host.share("first", 0), host.share("second", 1, now_ns=2)
    _know(host, first)
    ids = _prefer(host, _ids(*range(100)), 50)
    host.kubelet.crash()
    host.kubelet.start()
    host.kubelet.wait_for_plugins(CORE, MEMORY)
    _know(host, second)
    assert card_of(_allocate(host, ids)) == "/dev/nvidia1"
    assert host.agent.records.get(first["metadata"]["uid"]) is None


@pytest.mark.parametrize("trouble", ["limited", "silent", "no such pod"])
def test_a_question_without_an_answer_gets_the_lowest_devices_at_once(
    host: Host, trouble: str
) -> None:
    host.start_agent()
    _know(host, host.create(make_pod("p", container("c0", 2, 1))))
    host.kubelet.limited = 1000 if trouble == "limited" else 0
    host.kubelet.answers = trouble != "silent"
    size = 3 if trouble == "no such pod" else 2
    assert _prefer(host, _ids(9, 10, 7, 30), size) == _ids(7, 9, 10)[:size]
    assert host.agent.finder.guesses == 0
    host.kubelet.limited, host.kubelet.answers = 0, True
    assert _allocate(host, _ids(7, 9)).devices


def test_an_error_answers_with_the_lowest_devices(tmp_path: pathlib.Path) -> None:
    def fail(_: Sequence[str]) -> None:
        raise ZeroDivisionError

    plugin = ResourcePlugin(
        resource=CORE,
        inventory=card_inventory(tmp_path),
        records=open_records(tmp_path),
        devices=functools.partial(device_ids.core_ids, KEYS),
        calls=KubeletCalls(expect=fail, allocate=lambda _: ContainerResponse()),
        durations=CallDurations(),
    )
    assert plugin.preferred(_ids(9, 10, 7), _ids(10), 2) == (*_ids(10), *_ids(7))
    assert plugin.preferred(_ids(9), (), 2) == tuple(_ids(9))
    assert plugin.preferred(_ids(9), (), -1) == ()
