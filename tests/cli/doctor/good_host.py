"""A GPU host on which nothing is wrong: a real agent, fakes on real sockets, a simulated driver."""

import base64
import datetime
import json
import pathlib
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gpustack.cli.doctor import check
from gpustack.cli.doctor.check import CheckResult, NotChecked
from gpustack.cli.doctor.host import services
from gpustack.cli.doctor.host.checks import CHECKS
from gpustack.cli.doctor.host.reading import HostLocations, read
from tests.agent.host import Host
from tests.testbed.host_files import certificates

SIMGPU = pathlib.Path(__file__).parents[2] / "simgpu" / "out"
DRIVER = "535.261.03"
_KEY = ec.generate_private_key(ec.SECP256R1())
_SECONDS = 10.0  # after this long a test counts as hung


def certificate(*, days_left: float, days_whole: float = 365) -> str:
    """Return a certificate in PEM that ends in so many days."""
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days_left)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "system:node:gpu1")])
    built = (
        x509.CertificateBuilder(name, name, _KEY.public_key(), x509.random_serial_number())
        .not_valid_before(ends - datetime.timedelta(days=days_whole))
        .not_valid_after(ends)
        .sign(_KEY, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM).decode()


def token(*, days_left: float, days_whole: float = 365) -> str:
    """Return a JWT that ends in so many days."""
    ends = datetime.datetime.now(datetime.UTC).timestamp() + days_left * 86400
    claims = json.dumps({"exp": int(ends), "iat": int(ends - days_whole * 86400)}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.sum"


class GoodHost:
    """The host's parts, each of which a test may break.

    Attributes:
        paths: where the doctor looks.
        host: the agent and its neighbours.
        agent_config: what the doctor reads of the agent's settings.
        client_certificate: that of the agent's kubeconfig.
        scheduler: a configuration of kube-scheduler, there too.
        tokens: the folder with the tokens of the host's extender and own scheduler.
    """

    def __init__(self, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = Host(root)
        devices, modules = root / "doctor-dev", root / "modules"
        self.client_certificate = root / "client.pem"
        self.client_certificate.write_text(certificate(days_left=300))
        self.token_file = root / "token"
        self.tokens = root / "tokens"
        self.scheduler = root / "scheduler-config.yaml"
        self.paths = HostLocations(
            agent_config=root / "doctor-agent.yml",
            extender_config=root / "extender.yml",
            schedulers=(self.scheduler, root / "none.yaml"),
            devices=devices,
            modules=modules,
        )
        devices.mkdir()
        for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"):
            (devices / name).symlink_to("/dev/null")  # a device node that every host has
        for name in ("nvidia", "nvidia_uvm"):
            (modules / name).mkdir(parents=True)
        (modules / "nvidia" / "version").write_text(f"{DRIVER}\n")
        self.metrics = certificates.authority("metrics").server("metrics", ("127.0.0.1",))
        served = self.metrics.store(root, "metrics")
        self.host.configuration["metrics"] = {
            "listen": "127.0.0.1:0",
            "certificate": str(served.certificate),
            "key": str(served.key),
        }
        self.scheduler.write_text(json.dumps(scheduler_config()))
        cards = root / "cards.json"
        found = [{"minor": minor, "uuid": f"GPU-{minor:036d}"} for minor in range(2)]
        cards.write_text(json.dumps({"driver": DRIVER, "cards": found}))
        for name, value in {
            "SIMGPU_STATE": root / "simgpu-state",
            "SIMGPU_DEV": devices,
            "SIMGPU_CARDS": cards,
            "LD_LIBRARY_PATH": SIMGPU / "lib",
        }.items():
            monkeypatch.setenv(name, str(value))
        subprocess.run([SIMGPU / "bin" / "simgpu", "init"], check=True)

    def __enter__(self) -> "GoodHost":
        self.host.__enter__()
        self.host.start_agent()
        self.agent_config: dict[str, Any] = yaml.safe_load(
            (self.host.root / "agent.yml").read_text()
        )
        address = "127.0.0.1"
        port, metrics_port = self.host.agent.web.ports
        self.agent_config["metrics"]["listen"] = f"{address}:{metrics_port}"
        self.agent_config["http"] = {"address": address, "port": port}
        user = {"client-certificate": str(self.client_certificate), "token": token(days_left=300)}
        authority = base64.b64encode(certificate(days_left=3000, days_whole=3650).encode())
        kubeconfig = self.host.api.write_kubeconfig(
            self.host.root / "doctor-kubeconfig",
            user=user,
            **{"certificate-authority-data": authority.decode()},
        )
        self.agent_config["kubeconfig"] = str(kubeconfig)
        self.write_config()
        self.write_extender()
        waiting = threading.Event()
        for _ in range(int(_SECONDS * 20)):
            if not services.unready(address, port):
                return self
            waiting.wait(0.05)
        raise AssertionError(services.unready(address, port))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.host.__exit__(kind, error, trace)

    def write_extender(self, **changed: object) -> None:
        """Write the extender's configuration, whose kubeconfig names a token that lasts."""
        self.tokens.mkdir(exist_ok=True)
        for name in ("gpustack-extender", "gpustack-scheduler"):
            (self.tokens / name).write_text(token(days_left=2, days_whole=3))
        (self.tokens / ".being-written").touch()
        user = {"tokenFile": str(self.tokens / "gpustack-extender")}
        kubeconfig = self.host.api.write_kubeconfig(self.host.root / "extender-config", user=user)
        config = {"kubeconfig": str(kubeconfig), **changed}
        self.paths.extender_config.write_text(yaml.safe_dump(config))

    def write_config(self, **changed: object) -> None:
        """Write the settings of the agent that the doctor reads."""
        value = {**self.agent_config, **changed}
        self.paths.agent_config.write_text(json.dumps(value))

    @property
    def plugins(self) -> pathlib.Path:
        """The kubelet's folder of device plugins."""
        return self.host.kubelet.root / "device-plugins"


def scheduler_config(**changed: object) -> dict[str, Any]:
    """Return a configuration of kube-scheduler with our entry, whose fields may be others."""
    resources = [
        {"name": f"tencent.com/vcuda-{each}", "ignoredByScheduler": False}
        for each in ("core", "memory")
    ]
    entry = {
        "urlPrefix": "https://127.0.0.1:3456/scheduler",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": resources,
    }
    return {
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": [entry | changed],
    }


def examine(host: GoodHost) -> tuple[list[CheckResult], list[NotChecked]]:
    """Return what the checks find, and what they leave out."""
    found = list(check.run(CHECKS, read(host.paths)))
    return (
        [each for each in found if isinstance(each, CheckResult)],
        [each for each in found if isinstance(each, NotChecked)],
    )


def bad(findings: Sequence[CheckResult]) -> list[tuple[str, str]]:
    """Return the checks that find something wrong, each with its level, once."""
    pairs = ((each.check, each.level.value) for each in findings if each.level.value != "ok")
    return list(dict.fromkeys(pairs))
