"""The real kube-scheduler tries what it is given, or starts with it: a file that it refuses goes.

Its API server is away: it answers /healthz without one.
"""

import pathlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.ansible.kube_scheduler.scheduler_host import Host, lay_certificates
from tests.ansible.rendering import words
from tests.control_plane.processes import free_port
from tests.testbed.artifacts import kubernetes

pytestmark = [pytest.mark.long, pytest.mark.nightly]

EXTENDER = "https://127.0.0.1:3456/scheduler"
ENOUGH_SECONDS = 20  # to answer, on this machine
AWAY_SECONDS = 90  # at most, with a kubelet that looks every 20 s


class RealHost(Host):
    """A host whose scheduler is Kubernetes' own, as a unit with a file or as a static pod."""

    def __post_init__(self) -> None:
        """Lay its programs, its certificate and its files."""
        self.port = free_port()
        self.command = " ".join([str(self.program), f"--config={self.config}", *self.flags])
        super().__post_init__()
        self.program.unlink()
        self.program.symlink_to(kubernetes.CURRENT.bin / "kube-scheduler")
        lay_certificates(self.folder / "pki")
        cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        access = {"clusters": [cluster], "contexts": [context], "current-context": "c"}
        self.kubeconfig.write_text(yaml.safe_dump({"users": [{"name": "u"}], **access}))

    @property
    def flags(self) -> list[str]:
        """Return what lets it run beside other tests."""
        serving = f"--cert-dir={self.folder}/serving"
        return [f"--secure-port={self.port}", serving, "--bind-address=127.0.0.1"]

    @property
    def health_url(self) -> str:
        """Return the URL that answers while the scheduler runs."""
        return f"https://127.0.0.1:{self.port}/healthz"

    def given(self, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run the role, which calls an extender by TLS."""
        return self.play(
            kube_scheduler_tls=True,
            kube_scheduler_certificates=str(self.folder / "pki"),
            kube_scheduler_extender_url=EXTENDER,
            kube_scheduler_health_seconds=ENOUGH_SECONDS,
            **variables,
        )


@pytest.fixture(params=["unit", "static_pod"])
def host(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[RealHost]:
    made = RealHost(tmp_path, version=kubernetes.CURRENT.version)
    try:
        _start(made, request.param)
        yield made
    finally:
        made.stop()


def _start(host: RealHost, kind: str) -> None:
    """Start the scheduler as a site has it before our role comes."""
    if kind == "unit":
        found = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(host.kubeconfig)},
        }
        host.config.write_text(yaml.safe_dump(found))
        host.start_unit()
    else:
        command = ["kube-scheduler", f"--kubeconfig={host.kubeconfig}", *host.flags]
        image = f"registry.test/kube-scheduler:{kubernetes.CURRENT.version}"
        container = {"name": "kube-scheduler", "image": image, "command": command}
        pod = {"metadata": {"name": "kube-scheduler"}, "spec": {"containers": [container]}}
        host.manifest.write_text(yaml.safe_dump(pod))
        host.start_kubelet()


def went_back(done: subprocess.CompletedProcess[str], why: str) -> None:
    """Check that a run ended with the scheduler of before it, and said what was wrong."""
    said = words(done)
    assert done.returncode != 0
    assert "What it ran with before is back, and it answers again." in said, done.stdout
    assert why in said


def was_refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    """Check that a run ended before it changed a file, and said what was wrong."""
    said = words(done)
    assert done.returncode != 0
    assert "kube-scheduler refuses what this run would write to" in said, done.stdout
    assert why in said


def test_a_certificate_that_it_cannot_read_is_never_put_in_place(host: RealHost) -> None:
    ca = host.folder / "pki" / "ca.crt"
    trusted, pid = ca.read_bytes(), host.pid
    before = host.config.read_text() if host.config.exists() else ""
    ca.write_text("no certificate")
    was_refused(host.given(), "couldn't build extenders")
    assert (host.config.read_text() if host.config.exists() else "", host.pid) == (before, pid)
    ca.write_bytes(trusted)
    done = host.given()
    assert done.returncode == 0, done.stdout
    assert "without a trial" not in words(done)
    ca.write_text("no certificate")
    pid = host.pid
    was_refused(host.given(), "couldn't build extenders")
    assert host.pid == pid


@pytest.mark.parametrize("host", ["static_pod"], indirect=True)
def test_a_form_that_it_does_not_read_is_never_put_in_place(host: RealHost) -> None:
    pid = host.pid
    done = host.given(kube_scheduler_api_version="kubescheduler.config.k8s.io/v1beta3")
    was_refused(done, "is registered for version")
    assert (host.pid, host.config.exists()) == (pid, False)


class Thief(threading.Thread):
    """Another program: it takes the scheduler's port at its restart, until the old file is back."""

    def __init__(self, host: RealHost) -> None:
        super().__init__()
        self.host = host
        self.ended = threading.Event()
        self.away_seconds = 0.0

    def run(self) -> None:
        """Take the port once; then measure how long the scheduler is away."""
        with self._take() as taken:
            begun = time.monotonic()
            while self._new() and not self.ended.wait(0.01):
                pass
            taken.close()
        while not self.host.answers() and not self.ended.wait(0.05):
            pass
        self.away_seconds = time.monotonic() - begun

    def _new(self) -> bool:
        config = self.host.config
        return config.exists() and EXTENDER in config.read_text()

    def _take(self) -> socket.socket:
        # the next scheduler takes it within a few hundredths of a second
        while not self.ended.wait(0.001):
            try:
                return socket.create_server(("127.0.0.1", self.host.port))
            except OSError:  # the old scheduler has it still
                continue
        return socket.socket()

    def end(self) -> None:
        """Wait for its end, which comes when the scheduler answers or the test has failed."""
        self.ended.set()
        self.join()


def test_a_port_that_another_program_takes_brings_the_old_one_back(host: RealHost) -> None:
    thief = Thief(host)
    thief.start()
    try:
        went_back(host.given(), "address already in use")
        assert host.answers()
        thief.join()
        assert 0 < thief.away_seconds < AWAY_SECONDS
        print(f"away for {thief.away_seconds:.0f} s")
    finally:
        thief.end()
