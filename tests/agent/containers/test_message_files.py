"""`terminationMessagePath`: the kubelet mounts a file there, after all other mounts."""

import re

import pytest

from tests.agent.host import Host, container, make_pod
from tests.fakes.kubelet import AdmissionError


@pytest.mark.parametrize("path", ["/etc/ld.so.preload", "etc/vcuda/limits", "/run/../etc/vcuda/x"])
def test_a_message_file_that_would_hide_ours_is_refused(host: Host, path: str) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 50, 32, terminationMessagePath=path)))
    named = rf"HiddenPath: container 'c0', terminationMessagePath {re.escape(path)}: "
    with pytest.raises(AdmissionError, match=named):
        host.kubelet.admit(pod)


def test_a_message_file_beside_ours_is_allowed(host: Host) -> None:
    host.start_agent()
    for number, path in enumerate(["/dev/termination-log", "/etc/vcudata", "", None]):
        asked = container("c0", 20, 8, terminationMessagePath=path)
        host.kubelet.admit(host.create(make_pod(f"p{number}", asked)))


def test_a_whole_card_has_only_its_driver_guarded(host: Host) -> None:
    host.start_agent()
    above = container("c0", 100, terminationMessagePath="/etc")
    host.kubelet.admit(host.create(make_pod("above", above)))
    path = "/usr/local/nvidia/lib64/libcuda.so.1"
    driver = container("c0", 100, terminationMessagePath=path)
    with pytest.raises(AdmissionError, match=rf"terminationMessagePath {re.escape(path)}: "):
        host.kubelet.admit(host.create(make_pod("driver", driver)))
