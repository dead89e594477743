"""A kubelet or a runtime without CDI is an error of the configuration, named in one line."""

import functools
import logging
from collections.abc import Iterator

import pytest

from gpustack.adapters.cri import CriClient
from gpustack.adapters.kube import KubeClient
from gpustack.agent import main as program
from gpustack.agent.app import Agent
from gpustack.agent.cdi.support import CdiError, CdiSupport, CdiUnsupported
from gpustack.wire.config import ConfigError
from tests.agent.host import NODE, Host
from tests.fakes.kubelet import AdmissionError


@pytest.fixture
def on(host: Host) -> Host:
    """Return a host whose configuration wants CDI, with a runtime that has it."""
    host.configuration["cdi"] = {"enabled": True, "spec_dir": str(host.cdi_folder)}
    host.cri.config = {"enableCDI": True, "cdiSpecDirs": [str(host.cdi_folder)]}
    return host


def _kubelet(host: Host, version: str) -> None:
    host.api.edit("nodes", NODE, {"status": {"nodeInfo": {"kubeletVersion": version}}})


@pytest.mark.parametrize("version", ["v1.28.15", "v1.28.9+k3s1", "v1.9.0", "v0.30.0"])
def test_an_old_kubelet_ends_the_start(on: Host, version: str) -> None:
    _kubelet(on, version)
    with pytest.raises(ConfigError) as caught:
        on.start_agent()
    (problem,) = caught.value.problems
    assert problem == (
        f"cdi.enabled: the kubelet is {version}, and passes CDI devices on since 1.29;"
        " upgrade it, or set it to false"
    )
    assert not on.cdi_folder.exists()


@pytest.mark.parametrize("version", ["v1.29.0", "v1.30.4-eks-16b398d", "v2.0.0"])
def test_a_new_kubelet_is_taken(on: Host, version: str) -> None:
    _kubelet(on, version)
    assert list(on.start_agent().cdi.problem) == []


def test_a_kubelets_endless_version_is_not_known(on: Host) -> None:
    """Python refuses to make a number of 5000 digits, with an error of its own."""
    _kubelet(on, f"v{'1' * 5000}.29.1")
    on.start_agent()
    (problem,) = [each for each in on.agent.condition.unready() if "by CDI" in each]
    assert problem.endswith("(5006 characters)"), problem


def test_a_runtime_without_cdi_ends_the_start(on: Host) -> None:
    on.cri.version, on.cri.config = "v1.7.24", {"enableCDI": False, "cdiSpecDirs": ["/etc/cdi"]}
    with pytest.raises(ConfigError, match=r"cdi\.enabled: containerd v1\.7\.24 has CDI off; set "):
        on.start_agent()


def test_the_programs_exit_status_is_that_of_a_bad_configuration(
    on: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on.cri.version = "1.6.20~ds1"
    file = on.root / "agent.yml"
    on.write_configuration(file)
    here = functools.partial(
        Agent,
        device_dir=on.files.devices,
        linker_cache=on.files.linker_cache,
        kernel=on.kernel,
    )
    monkeypatch.setattr("gpustack.agent.app.Agent", here)
    monkeypatch.setattr("gpustack.adapters.nvml.Nvml", lambda: on.nvml)
    monkeypatch.setattr(program, "set_up_log", lambda *_, **__: None)
    with caplog.at_level(logging.CRITICAL):
        assert program.main(["--config", str(file)]) == 2
    (told,) = caplog.messages
    assert told == (
        f"does not start: {file}: cdi.enabled: containerd 1.6.20~ds1 takes no CDI devices from the"
        " kubelet; upgrade it to 1.7.2, or set it to false"
    )


@pytest.mark.parametrize("domain", ["9gag.example", "1.example", "x"])
def test_a_domain_that_is_no_vendor_is_refused(on: Host, domain: str) -> None:
    on.configuration["domain"] = domain
    with pytest.raises(ConfigError, match=rf"agent\.yml: domain: '{domain}' does not begin with"):
        on.settings()


def test_a_kubelet_that_is_not_known_refuses_until_it_is(on: Host) -> None:
    """Without an answer the names could go to a kubelet that drops them."""
    _kubelet(on, "")
    on.start_agent()
    refused = (
        r"HostIncomplete: not known .* /api/v1/nodes/gpu1: status.nodeInfo.kubeletVersion is ''"
    )
    with pytest.raises(AdmissionError, match=refused):
        on.kubelet.admit(on.share())
    (problem,) = [each for each in on.agent.condition.unready() if "by CDI" in each]
    assert "kubeletVersion is ''" in problem
    _kubelet(on, "v1.29.1")
    on.wait_until(lambda: not on.agent.cdi.problem)
    assert on.kubelet.admit(on.share("q"))["c0"].cdi_devices


def test_a_runtime_that_is_silent_at_the_start_is_asked_again(on: Host) -> None:
    on.cri.stop()
    on.start_agent()
    assert "not known" in on.agent.cdi.problem
    on.cri.start()
    on.wait_until(lambda: not on.agent.cdi.problem)


def test_an_older_kubelet_ends_the_agent(on: Host) -> None:
    agent = on.start_agent()
    _kubelet(on, "v1.28.0")
    on.kubelet.restart()
    on.wait_until(lambda: agent.tasks.failed)
    assert "the kubelet is v1.28.0" in agent.cdi.problem


class _Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Asked:
    """The support of a host, at a clock of the test's."""

    def __init__(self, host: Host) -> None:
        self.clock = _Clock()
        self.restarts = 0
        self.runtime = CriClient(host.cri.endpoint)
        self.support = CdiSupport(
            client=KubeClient.from_kubeconfig(host.api.write_kubeconfig(host.root / "kubeconfig")),
            node_name=NODE,
            runtime=self.runtime,
            folder=host.cdi_folder,
            kubelet_restarts=lambda: self.restarts,
            clock=self.clock,
        )


@pytest.fixture
def asked(on: Host) -> Iterator[Asked]:
    asked = Asked(on)
    yield asked
    asked.runtime.close()


def test_both_are_asked_soon_again_and_then_once_a_minute(on: Host, asked: Asked) -> None:
    """The node may show the version of the kubelet before for some seconds."""
    for seconds in (0, 1, 9, 10, 11, 69):
        asked.clock.seconds = seconds
        asked.support.require()
    assert len(on.api.asked("GET", "/api/v1/nodes/gpu1")) == 2
    on.cri.config = {"cdiSpecDirs": []}
    asked.clock.seconds = 70
    with pytest.raises(CdiUnsupported, match="reads no CDI specs in"):
        asked.support.require()
    with pytest.raises(CdiError, match="reads no CDI specs in"):
        asked.support.require()


def test_a_silent_api_server_is_not_asked_for_every_container(on: Host, asked: Asked) -> None:
    _kubelet(on, "")
    for seconds in (0, 1, 1.9, 2):
        asked.clock.seconds = seconds
        with pytest.raises(CdiError, match="not known whether"):
            asked.support.require()
    assert len(on.api.asked("GET", "/api/v1/nodes/gpu1")) == 2
    asked.restarts += 1
    _kubelet(on, "v1.29.0")
    asked.support.require()


def test_what_is_known_outlives_silence_and_no_kubelet(on: Host, asked: Asked) -> None:
    asked.support.require()
    on.cri.stop()
    asked.clock.seconds = 61
    asked.support.require()
    asked.restarts += 1
    with pytest.raises(CdiError, match="not known whether kubelet and runtime take CDI devices"):
        asked.support.require()
