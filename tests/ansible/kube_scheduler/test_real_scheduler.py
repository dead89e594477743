"""The real kube-scheduler refuses what it is given: the one before it answers again.

Its API server is away: it answers /healthz without one.
"""

import contextlib
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.ansible.kube_scheduler.scheduler_host import Host
from tests.ansible.rendering import words
from tests.testbed.artifacts import kubernetes
from tests.testbed.host_files import certificates

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
        (self.folder / "pki").mkdir()
        self.certify(certificates.authority("extender").client("system:kube-scheduler"))
        cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        access = {"clusters": [cluster], "contexts": [context], "current-context": "c"}
        self.kubeconfig.write_text(yaml.safe_dump({"users": [{"name": "u"}], **access}))

    def certify(self, client: Any) -> None:
        """Lay the certificate that the scheduler shows to extenders, and what it trusts."""
        for name, text in (("client.crt", client.certificate), ("client.key", client.key)):
            (self.folder / "pki" / name).write_bytes(text)
        (self.folder / "pki" / "ca.crt").write_bytes(client.certificate)

    @property
    def health_url(self) -> str:
        """Return the URL that answers while the scheduler runs."""
        return f"https://127.0.0.1:{self.port}/healthz"

    def answers(self) -> bool:
        """Tell whether the scheduler answers."""
        anyone = ssl._create_unverified_context()  # noqa: S323 - it made its certificate itself
        try:
            with urllib.request.urlopen(self.health_url, timeout=1, context=anyone):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

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
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(made.stop)
        if request.param == "unit":
            found = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(made.kubeconfig)},
            }
            made.config.write_text(yaml.safe_dump(found))
            made.start_unit()
        else:
            command = ["kube-scheduler", f"--kubeconfig={made.kubeconfig}"]
            image = f"registry.test/kube-scheduler:{kubernetes.CURRENT.version}"
            container = {"name": "kube-scheduler", "image": image, "command": command}
            pod = {"metadata": {"name": "kube-scheduler"}, "spec": {"containers": [container]}}
            made.manifest.write_text(yaml.safe_dump(pod))
            made.start_kubelet()
        yield made


def went_back(done: subprocess.CompletedProcess[str], why: str) -> None:
    """Check that a run ended with the scheduler of before it, and said what was wrong."""
    said = words(done)
    assert done.returncode != 0
    assert "What it ran with before is back, and it answers again." in said, done.stdout
    assert why in said


def test_a_certificate_that_it_cannot_read_brings_the_old_one_back(host: RealHost) -> None:
    (host.folder / "pki" / "ca.crt").write_text("no certificate")
    went_back(host.given(), "couldn't build extenders")
    assert host.answers()
    (host.folder / "pki" / "ca.crt").write_bytes((host.folder / "pki" / "client.crt").read_bytes())
    assert host.given().returncode == 0


@pytest.mark.parametrize("host", ["static_pod"], indirect=True)
def test_a_form_that_it_does_not_read_brings_the_old_one_back(host: RealHost) -> None:
    done = host.given(kube_scheduler_api_version="kubescheduler.config.k8s.io/v1beta3")
    went_back(done, "is registered for version")
    assert host.answers()
