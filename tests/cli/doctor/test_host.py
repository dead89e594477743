"""``gpustack doctor --host``: its use, its time, and what it judges."""

import datetime
import json
import os
import pathlib
import re
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gpustack.cli.doctor import check
from gpustack.cli.doctor.check import CheckResult, NotChecked
from gpustack.cli.doctor.cluster.checks import CHECKS as CLUSTER_CHECKS
from gpustack.cli.doctor.host import driver, local_files, schedulers, services
from gpustack.cli.doctor.host.checks import CHECKS
from gpustack.cli.doctor.host.facts import HostFacts, NvmlAnswer, SchedulerFile
from gpustack.cli.doctor.host.reading import HostLocations, read
from gpustack.cli.main import main
from tests.ansible import rendering
from tests.cli.doctor.good_cluster import ask, bad
from tests.cli.doctor.good_host import scheduler_config

SECTION = re.compile(r'(docs/[a-z/]+\.md), "([^"]+)"')
ROOT = pathlib.Path(__file__).parents[3]
IGNORED = [{"name": "a/vcuda-core", "ignoredByScheduler": True}, {"name": "a/vcuda-memory"}]
NOW = datetime.datetime.now(datetime.UTC)


def test_a_control_plane_host_is_asked_by_its_command(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(json.dumps(scheduler_config(nodeCacheCapable=False)))
    words = ("--host", "--agent-config", str(tmp_path / "none"), "--scheduler-config", str(path))
    value = ask(capsys, *words, status=1)
    assert bad(value) == [("scheduler-entry", "fail")]
    assert len(value["not_checked"]) == len(CHECKS) - 2
    path.write_text(json.dumps(scheduler_config()))
    assert ask(capsys, *words, status=0)["sums"] == {"ok": 2, "warn": 0, "fail": 0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "--snapshot", "f"), "argument --snapshot: not allowed with argument --host"),
        (("--host", "--kubeconfig", "f"), "argument --kubeconfig: not allowed with argument"),
        (("--agent-config", "f"), "argument --agent-config: needs argument --host"),
        (("--scheduler-config", "f"), "argument --scheduler-config: needs argument --host"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", *words])
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_the_entries_that_the_role_writes_are_right(tmp_path: pathlib.Path) -> None:
    folder = rendering.render(tmp_path, kube_scheduler_steer_other_pods=True)
    for name in ("configuration.yaml", "own_configuration.yaml", "policy.json"):
        file = SchedulerFile(path=name, value=yaml.safe_load((folder / name).read_text()))
        (found,) = schedulers.entries(HostFacts(now=NOW, version="", schedulers=(file,)))
        assert (found.level, found.text) == (check.Severity.OK, f"{name} has our extender's entry")


@pytest.mark.parametrize("value", [None, [], {"extenders": 7}, {"extenders": ["x", None]}, "x"])
def test_a_scheduler_configuration_of_another_shape_has_no_entry(value: object) -> None:
    file = SchedulerFile(path="f", value=value)
    (found,) = schedulers.entries(HostFacts(now=NOW, version="", schedulers=(file,)))
    assert found.level is check.Severity.FAIL
    assert found.text == "f: names no extender of gpustack's"


def test_the_clusters_scheduler_needs_no_entry_beside_our_own() -> None:
    others = SchedulerFile(path="other", value={"percentageOfNodesToScore": 0})
    own = SchedulerFile(path="own", value=scheduler_config())
    (found,) = schedulers.entries(HostFacts(now=NOW, version="", schedulers=(others, own)))
    assert found.level is check.Severity.OK


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"managedResources": [{"name": "a/vcuda-core"}]}, "must have DOMAIN/vcuda-memory"),
        ({"managedResources": IGNORED}, "ignoredByScheduler: must be false"),
        ({"filterVerb": "predicates"}, "extenders[].filterVerb: must be filter"),
        ({"nodeCacheCapable": False}, "extenders[].nodeCacheCapable: must be true"),
    ],
)  # fmt: skip
def test_a_changed_entry_is_told_by_its_field(changed: dict[str, Any], words: str) -> None:
    file = SchedulerFile(path="f", value=scheduler_config(**changed))
    (found,) = schedulers.entries(HostFacts(now=NOW, version="", schedulers=(file,)))
    assert words in found.text


def test_a_library_that_does_not_fit_is_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "nvml", lambda: {"mismatch": "the library is 550"})
    where = HostLocations(agent_config=pathlib.Path("/nowhere"), schedulers=())
    found = list(check.run(CHECKS, read(where)))
    version = next(each for each in found if each.check == "driver-version")
    assert isinstance(version, CheckResult)
    assert (version.level, version.found) == (check.Severity.FAIL, "the library is 550")
    assert isinstance(next(each for each in found if each.check == "driver"), NotChecked)


def test_cards_that_do_not_answer_are_named() -> None:
    nvml = NvmlAnswer(driver="535", minors=(0,), left_out=("GPU-1 does not answer",))
    (found,) = driver.nvml(HostFacts(now=NOW, version="", nvml=nvml))
    assert (found.level, found.text) == (check.Severity.FAIL, "GPU-1 does not answer")
    assert "nvidia_driver" not in found.mend  # the driver answers: another one mends no card
    assert "card list" in found.mend
    (found,) = driver.nvml(HostFacts(now=NOW, version="", nvml=NvmlAnswer(driver="535")))
    assert found.text == "driver 535 answers with no card"


def test_a_driver_that_ends_its_caller_is_a_finding(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'no such symbol' >&2\nkill -SEGV $$\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(services.ServiceError, match=f"status -{signal.SIGSEGV.value}: no such"):
        services.nvml()


def test_a_driver_that_hangs_is_left_behind(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    monkeypatch.setattr(services, "_NVML_SECONDS", 0.2)
    with pytest.raises(services.ServiceError, match=r"has not answered NVML for 0\.2 s"):
        services.nvml()


@pytest.fixture
def silent() -> Iterator[int]:
    """Return a port at which a peer accepts and sends a byte now and then."""
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 503 no\r\nContent-Length: 60000\r\n\r\n")
            while not stop.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        stop.set()
        thread.join(10)


def test_an_answer_that_does_not_end_is_left_behind(
    silent: int, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr("gpustack.cli.doctor.host.reading._SECONDS", 0.5)
    config = tmp_path / "agent.yml"
    settings = {
        "hook": {"version": "0.1.0-01234567"},
        "http": {"port": silent},
        "kubelet_root": str(tmp_path),
        "cri_endpoint": f"unix://{tmp_path}/cri.sock",
        "kubeconfig": str(tmp_path / "none"),
    }
    config.write_text(json.dumps(settings))
    facts = read(HostLocations(agent_config=config, schedulers=()))
    assert facts.unread["readyz"] == "no answer in 0.5 s"


def test_a_fifo_in_place_of_a_file_does_not_keep_the_doctor(tmp_path: pathlib.Path) -> None:
    for name in ("agent.yml", "scheduler.yaml"):
        os.mkfifo(tmp_path / name)
    (found,) = local_files.schedulers([tmp_path / "scheduler.yaml"])
    assert "no regular file" in found.problem
    facts = read(HostLocations(agent_config=tmp_path / "agent.yml", schedulers=()))
    assert "no regular file" in facts.unread["agent.yml"]


def test_a_folder_of_too_many_files_is_not_read_to_its_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "_MOST_SOCKETS", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(local_files.HostFileError, match="more than 2 files"):
        local_files.sockets(tmp_path)


def test_each_section_that_a_check_names_is_there() -> None:
    mends = [each.mend for each in CLUSTER_CHECKS] + [each.mend for each in CHECKS]
    named = [found for mend in mends for found in SECTION.findall(mend)]
    assert len(named) >= 6
    for path, title in named:
        assert f"\n## {title}\n" in (ROOT / path).read_text("utf-8"), (path, title)
