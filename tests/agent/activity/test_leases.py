"""A tenant's root may hold a lease on a file of its own: an open of that file waits 45 s."""

import contextlib
import fcntl
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gpustack.adapters import mapped
from gpustack.agent.activity import shares
from tests.agent.host import CORE, Host
from tests.fakes.kubelet import AdmissionError

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


@pytest.mark.parametrize("name", ["limits", "activity", "ledger"])
def test_a_lease_on_a_containers_file_stops_no_other_container(host: Host, name: str) -> None:
    host.start_agent()
    pod, other = host.share("one", 0), host.share("other", 1)
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    host.cri.run(pod["metadata"]["uid"], "c0")
    with _lease(host.folder(pod, "c0") / name):
        host.api.edit("pods", "one", {"metadata": {"labels": {"any": "change"}}})
        host.kubelet.admit(other)
        host.kubelet.start_container(other, "c0", CORE)
        activity = host.folder(other, "c0") / "activity"
        before = mapped.read_activity(activity).sampled_ns
        host.wait_until(lambda: mapped.read_activity(activity).sampled_ns > before)
        watched = [share.pod for share in shares.read(host.agent.records, host.agent.folders)]
        assert sorted(watched) == ["one", "other"]
        if name == "ledger":
            host.wait_until(lambda: host.agent.escapes.damaged == 1)


def _shared(host: Host) -> list[pathlib.Path]:
    """Return the files that the containers of all tenants have mounted."""
    folders = (host.hook, *(host.settings().state_dir / "driver").glob("*/*"))
    return [path for folder in folders for path in folder.iterdir() if not path.is_symlink()]


def test_no_lease_is_granted_on_files_that_all_tenants_have_mounted(host: Host) -> None:
    older = host.install_hook("0.0.9")
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
