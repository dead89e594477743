"""Faults planted on a GPU host: each is found by its own check, and by no other."""

import json
import pathlib
import shutil
import socket
from collections.abc import Callable, Iterator

import pytest

from gpustack.cli.doctor.host.checks import CHECKS
from tests.cli.doctor.good_host import GoodHost, bad, certificate, examine, scheduler_config, token

Fault = Callable[[GoodHost], object]


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoodHost]:
    with GoodHost(tmp_path, monkeypatch) as found:
        yield found


def replace_node(host: GoodHost) -> None:
    path = host.paths.devices / "nvidia-uvm"
    path.unlink()
    path.mkdir()  # as a runtime makes it that mounts a missing path


def other_module(host: GoodHost) -> None:
    (host.paths.modules / "nvidia" / "version").write_text("550.90.07\n")


def stop_agents_http(host: GoodHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    host.write_config(http={"address": "127.0.0.1", "port": port})


def other_socket(name: str) -> Fault:
    def plant(host: GoodHost) -> None:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(host.plugins / name))

    return plant


def write_to_hook(host: GoodHost) -> None:
    other = host.host.files.install_hook("0.2.0")  # the agent would say, too, that its own is bad
    (other / "libvcuda.so").write_text("more")
    host.write_config(hook={"version": other.name})


def of_certificate(days_left: float, days_whole: float = 365) -> Fault:
    text = certificate(days_left=days_left, days_whole=days_whole)
    return lambda host: host.client_certificate.write_text(text)


def of_token(text: str) -> Fault:
    def plant(host: GoodHost) -> None:
        host.token_file.write_text(text)
        path = pathlib.Path(host.agent_config["kubeconfig"])
        value = json.loads(path.read_text())
        value["users"][0]["user"] = {"tokenFile": str(host.token_file)}
        path.write_text(json.dumps(value))

    return plant


def of_daemon(name: str, text: str) -> Fault:
    return lambda host: (host.tokens / name).write_text(text)


def endless_token(host: GoodHost) -> None:
    path = host.host.root / "extender-config"
    value = json.loads(path.read_text())
    value["users"][0]["user"] = {"token": "e30.e30.sum"}
    path.write_text(json.dumps(value))


def of_scheduler(value: object) -> Fault:
    text = value if isinstance(value, str) else json.dumps(value)
    return lambda host: host.scheduler.write_text(text)


def without(name: str) -> Fault:
    """Show the doctor the kubelet's sockets but one; the agent would make its own anew."""

    def plant(host: GoodHost) -> None:
        folder = host.host.root / "kubelet-2"
        for path in host.host.kubelet.root.glob("*/*.sock"):
            place = folder / path.relative_to(host.host.kubelet.root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)
        (folder / name).unlink()
        host.write_config(kubelet_root=str(folder))

    return plant


FAULTS: dict[str, tuple[Fault, str, str, str]] = {
    "the library does not fit the module": (
        other_module, "driver-version", "fail", "says 535.261.03, and the loaded module is 550",
    ),
    "a module's version is unknown": (
        lambda host: (host.paths.modules / "nvidia" / "version").unlink(),
        "driver-version", "warn", "can't be checked",
    ),
    "a module is missing": (
        lambda host: (host.paths.modules / "nvidia_uvm").rmdir(), "modules", "fail", "not loaded",
    ),
    "a device node is missing": (
        lambda host: (host.paths.devices / "nvidia-uvm").unlink(),
        "device-nodes", "fail", "No such file",
    ),
    "a folder stands for a device node": (
        replace_node, "device-nodes", "fail", "is no device node",
    ),
    "the configuration has an unknown key": (
        lambda host: host.write_config(poll="fast\x1b[2J"), "agent-config", "fail", "poll",
    ),
    "the agent's socket is gone": (
        lambda host: host.write_config(run_dir="/nowhere"),
        "agent", "fail", "does gpustack-agent run on this host",
    ),
    "the agent's HTTP port is another": (
        stop_agents_http, "agent-ready", "fail", "does gpustack-agent run?",
    ),
    "a plugin's socket is gone": (
        without("device-plugins/vmemory.sock"),
        "kubelet-plugins", "fail", "has no socket vmemory.sock",
    ),
    "the kubelet's socket is gone": (
        without("device-plugins/kubelet.sock"),
        "kubelet-plugins", "fail", "the kubelet takes no device plugin",
    ),
    "another plugin has a socket": (
        other_socket("nvidia-gpu.sock"), "other-plugins", "fail", "is another plugin's",
    ),
    "PodResources is silent": (
        without("pod-resources/kubelet.sock"),
        "pod-resources", "fail", "List:",
    ),
    "the runtime is away": (
        lambda host: host.write_config(cri_endpoint="unix:///nowhere/cri.sock"),
        "runtime", "fail", "cri.sock",
    ),
    "the hook's build is missing": (
        lambda host: host.write_config(hook={"version": "9.9.9-01234567"}),
        "hook", "fail", "no hook in",
    ),
    "the hook's files were written to": (write_to_hook, "hook", "fail", "not the build's own"),
    "gpustack-mount does not run": (
        lambda host: host.write_config(mount_socket="/nowhere/mount.sock"),
        "mounts", "fail", "gpustack-mount does not run",
    ),
    "a certificate has expired": (of_certificate(-1), "credentials", "fail", "has expired"),
    "a certificate soon ends": (of_certificate(13), "credentials", "warn", "ends in 12d"),
    "a short certificate was not renewed": (
        of_certificate(0.05, 1), "credentials", "warn", "ends in 1h",
    ),
    "a certificate can't be read": (
        lambda host: host.client_certificate.write_text("x"),
        "credentials", "fail", "no certificate in PEM",
    ),
    "a token has expired": (
        of_token(token(days_left=-2)), "credentials", "fail", "has expired",
    ),
    "a token soon ends": (of_token(token(days_left=2)), "credentials", "warn", "ends in"),
    "the extender's token has ended": (
        of_daemon("gpustack-extender", token(days_left=-1, days_whole=3)),
        "tokens", "fail", "has expired",
    ),
    "the extender's token is missing": (
        lambda host: (host.tokens / "gpustack-extender").unlink(),
        "tokens", "fail", "can't be read",
    ),
    "the timer doesn't renew the own scheduler's token": (
        of_daemon("gpustack-scheduler", token(days_left=0.9, days_whole=3)),
        "tokens", "warn", "ends in 21h, and was not renewed",
    ),
    "the extender has the token of 0.1.0": (
        endless_token, "tokens", "warn", "doesn't end: who has it keeps it",
    ),
    "the extender's kubeconfig is gone": (
        lambda host: (host.host.root / "extender-config").unlink(),
        "tokens", "fail", "No such file",
    ),
    "the scheduler has no entry": (
        of_scheduler({"extenders": [{"urlPrefix": "http://other"}]}),
        "scheduler-entry", "fail", "names no extender of gpustack's",
    ),
    "the scheduler's entry is ignorable": (
        of_scheduler(scheduler_config(ignorable=True)),
        "scheduler-entry", "fail", "extenders[].ignorable: must be false",
    ),
    "the scheduler's entry does not bind": (
        of_scheduler(scheduler_config(bindVerb="")),
        "scheduler-entry", "fail", "extenders[].bindVerb: must be bind",
    ),
    "the scheduler's file is no YAML": (of_scheduler("{"), "scheduler-entry", "fail", "not YAML"),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_fault_of_a_host_is_found_by_its_own_check_alone(host: GoodHost, fault: str) -> None:
    plant, name, level, words = FAULTS[fault]
    plant(host)
    findings, _ = examine(host)
    assert bad(findings) == [(name, level)]
    found = [each for each in findings if each.level.value != "ok"]
    assert words in found[0].found, found[0]
    assert found[0].mend
    assert found[0].why
    assert found[0].found.isprintable()


def test_a_good_host_has_nothing_to_mend(host: GoodHost) -> None:
    before = {path: path.stat().st_mtime_ns for path in host.host.state.rglob("*")}
    findings, left_out = examine(host)
    assert bad(findings) == []
    assert left_out == []
    assert [each.check for each in findings] == [each.name for each in CHECKS]
    assert {path: path.stat().st_mtime_ns for path in host.host.state.rglob("*")} == before


def test_twelve_faults_of_a_host_have_checks_of_their_own() -> None:
    assert len({check for _, check, level, _ in FAULTS.values() if level == "fail"}) >= 12


def test_a_driver_that_does_not_answer_is_said_once(
    host: GoodHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    findings, left_out = examine(host)
    assert bad(findings) == [("driver", "fail")]
    assert [each.check for each in left_out] == ["driver-version"]


def test_a_broken_configuration_leaves_what_needs_it_unchecked(host: GoodHost) -> None:
    host.paths.agent_config.write_text("{")
    findings, left_out = examine(host)
    assert bad(findings) == [("agent-config", "fail")]
    assert len(left_out) == 9
    assert {each.why for each in left_out} == {f"{host.paths.agent_config} can't be read"}


def test_a_host_without_cards_has_its_scheduler_checked(host: GoodHost) -> None:
    host.paths.agent_config.unlink()
    shutil.rmtree(host.paths.modules)
    findings, left_out = examine(host)
    assert bad(findings) == []
    assert [each.check for each in findings] == ["tokens", "scheduler-entry", "metrics"]
    assert len(left_out) == len(CHECKS) - 3
    host.scheduler.unlink()
    findings, left_out = examine(host)
    assert bad(findings) == [
        ("driver-version", "warn"),
        ("modules", "fail"),
        ("agent-config", "fail"),
    ]
