"""The real kube-scheduler refuses what it is given: the one before it answers again.

Its API server is away: it answers /healthz without one.
"""

import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.ansible.kube_scheduler.scheduler_host import Host, lay_certificates
from tests.ansible.rendering import words
from tests.testbed.artifacts import kubernetes

pytestmark = [pytest.mark.long, pytest.mark.nightly]

EXTENDER = "https://127.0.0.1:3456/scheduler"
ENOUGH_SECONDS = 20  # to answer, on this machine


class RealHost(Host):
    """A host whose scheduler is Kubernetes' own, as a unit with a file or as a static pod."""

    def __post_init__(self) -> None:
        """Lay its programs, its certificate and its files."""
        super().__post_init__()
        real, serving = kubernetes.CURRENT.bin / "kube-scheduler", self.folder / "serving"
        flags = f"--secure-port={self.port} --cert-dir={serving} --bind-address=127.0.0.1"
        self.program.write_text(f'#!/bin/sh\nexec {real} {flags} "$@"\n')
        lay_certificates(self.folder / "pki")
        cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        access = {"clusters": [cluster], "contexts": [context], "current-context": "c"}
        self.kubeconfig.write_text(yaml.safe_dump({"users": [{"name": "u"}], **access}))

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
        command = ["kube-scheduler", f"--kubeconfig={host.kubeconfig}"]
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


def test_a_certificate_that_it_cannot_read_brings_the_old_one_back(host: RealHost) -> None:
    ca = host.folder / "pki" / "ca.crt"
    trusted = ca.read_bytes()
    ca.write_text("no certificate")
    went_back(host.given(), "couldn't build extenders")
    assert host.answers()
    ca.write_bytes(trusted)
    assert host.given().returncode == 0


@pytest.mark.parametrize("host", ["static_pod"], indirect=True)
def test_a_form_that_it_does_not_read_brings_the_old_one_back(host: RealHost) -> None:
    done = host.given(kube_scheduler_api_version="kubescheduler.config.k8s.io/v1beta3")
    went_back(done, "is registered for version")
    assert host.answers()
