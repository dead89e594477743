"""A tenant's root may take a lease on a file of its own, where nobody has it open for writing.

An open of that file then waits 45 s.
"""

import contextlib
import fcntl
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gpustack.adapters import mapped
from gpustack.agent.activity.shares import Shares
from tests.agent.host import CORE, Host, Pod
from tests.fakes.kubelet import AdmissionError
from tests.fakes.service_manager import FakeServiceManager

_ENABLED = pathlib.Path("/proc/sys/fs/leases-enable")
_BREAK_SECONDS = int(pathlib.Path("/proc/sys/fs/lease-break-time").read_text())
pytestmark = pytest.mark.skipif(
    _ENABLED.read_text().strip() != "1", reason="this host gives no leases"
)
# A write lease is given while no other process has the file open; the sampler has at times.
_HOLD = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
descriptor = os.open(sys.argv[1], os.O_RDONLY)
while True:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        break
    except BlockingIOError:
        pass
print("held", flush=True)
signal.pause()
"""


# Both kinds, as whatever user; the answers as one line.
_TRY = """
import errno, fcntl, os, sys
for path in sys.argv[1:]:
    for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, kind)
            print("granted")
        except OSError as error:
            print(errno.errorcode[error.errno])
        os.close(descriptor)
"""


def _answers(*paths: pathlib.Path) -> set[str]:
    """Return how the kernel answers a process that asks for leases of both kinds."""
    asked = subprocess.check_output([sys.executable, "-c", _TRY, *paths], text=True)
    return set(asked.split())


@contextlib.contextmanager
def _lease(path: pathlib.Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, path], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.kill()


@pytest.mark.parametrize("name", mapped.FORMS)
def test_a_lease_on_a_containers_file_stops_no_other_container(host: Host, name: str) -> None:
    host.start_agent()
    pod, other = host.share("one", 0), host.share("other", 1)
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    host.cri.run(pod["metadata"]["uid"], "c0")
    host.stop_agent()  # for good: systemd closes the files of a unit that is stopped
    with _lease(host.folder(pod, "c0") / name):
        host.start_agent()
        host.api.edit("pods", "one", {"metadata": {"labels": {"any": "change"}}})
        host.kubelet.admit(other)
        host.kubelet.start_container(other, "c0", CORE)
        activity = host.folder(other, "c0") / "activity"
        before = mapped.read_activity(activity).sampled_ns
        host.wait_until(lambda: mapped.read_activity(activity).sampled_ns > before)
        watched = [share.pod for share in Shares(host.agent.records, host.agent.folders).read()]
        assert sorted(watched) == ["one", "other"]
        if name == "ledger":
            host.wait_until(lambda: host.agent.escapes.containers["LedgerDamaged"] == 1)


def _files(host: Host, pod: Pod) -> list[pathlib.Path]:
    return [host.folder(pod, "c0") / name for name in mapped.FORMS]


def test_no_lease_is_granted_on_a_containers_files_from_before_its_start(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    assert _answers(*_files(host, pod)) == {"EAGAIN"}
    host.stop_agent()
    assert _answers(*_files(host, pod)) == {"granted"}


def test_no_lease_is_granted_while_the_agent_restarts(
    host: Host, service_manager: FakeServiceManager
) -> None:
    host.start_agent(service_manager.start_service())
    pod = host.share()
    host.kubelet.admit(pod)
    stored = service_manager.wait_for(3)
    host.stop_agent()
    assert _answers(*_files(host, pod)) == {"EAGAIN"}
    host.start_agent(service_manager.start_service())
    host.kubelet.start_container(pod, "c0", CORE)
    assert _answers(*_files(host, pod)) == {"EAGAIN"}
    assert service_manager.wait_for(3) == stored, "the same files are stored once"


def test_the_files_of_a_removed_pod_are_closed(
    host: Host, service_manager: FakeServiceManager
) -> None:
    host.start_agent(service_manager.start_service())
    pod, other = host.share("one", 0), host.share("other", 1)
    host.kubelet.admit(pod)
    host.kubelet.admit(other)
    service_manager.wait_for(6)
    host.stop_agent()
    host.start_agent(service_manager.start_service())
    host.end(pod)
    service_manager.wait_for(3)
    host.wait_until(lambda: host.agent.folders.held.count == 3)
    assert _answers(*_files(host, other)) == {"EAGAIN"}


def test_a_file_that_is_made_anew_is_held_before_its_container_starts(
    host: Host, service_manager: FakeServiceManager
) -> None:
    host.start_agent(service_manager.start_service())
    pod = host.share()
    host.kubelet.admit(pod)
    before = service_manager.wait_for(3)
    ledger = host.folder(pod, "c0") / "ledger"
    ledger.write_bytes(bytes(ledger.stat().st_size))
    host.kubelet.start_container(pod, "c0", CORE)
    assert _answers(*_files(host, pod)) == {"EAGAIN"}
    # All three are new, and systemd hears of one after the other.
    host.wait_until(lambda: service_manager.wait_for(3).isdisjoint(before))


def _shared(host: Host) -> list[pathlib.Path]:
    """Return the files that the containers of all tenants have mounted."""
    folders = (host.hook, *(host.settings().state_dir / "driver").glob("*/*"))
    return [path for folder in folders for path in folder.iterdir() if not path.is_symlink()]


def test_no_lease_is_granted_on_files_that_all_tenants_have_mounted(host: Host) -> None:
    older = host.files.install_hook("0.0.9")
    host.start_agent()
    for path in (*_shared(host), older / "ld.so.preload"):
        with path.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)


def test_leases_on_files_that_all_tenants_have_mounted_stop_no_agent(host: Host) -> None:
    host.start_agent()
    shared = _shared(host)
    host.stop_agent()
    with contextlib.ExitStack() as leases:
        for path in shared:
            leases.enter_context(_lease(path))
        began = time.monotonic()
        host.start_agent()
        with pytest.raises(AdmissionError, match=r"HostIncomplete: .*holds a lease"):
            host.kubelet.admit(host.share("one", 0))
        assert time.monotonic() - began < _BREAK_SECONDS, "no open waits for the lease's end"
    host.kubelet.admit(host.share("two", 1))
