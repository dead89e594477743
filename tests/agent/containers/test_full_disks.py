"""A disk that is full or can't be written: the agent says so, and gives no card twice."""

import pathlib
import shutil
from collections.abc import Callable

import pytest

from gpustack.adapters.checkpoint import CheckpointError
from gpustack.agent import main
from gpustack.agent.containers.allocation_records import open_records
from tests.agent.host import CORE, Host, card_of
from tests.agent.mounts.namespace import alone, mount_tmpfs, remount
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import FakeNvml, card

_DISK_BYTES = 2 << 20


def _on_own_disk(root: pathlib.Path, body: Callable[[Host], None]) -> None:
    """Run a test with the agent's state on a small file system of its own."""

    def run() -> None:
        with Host(root) as host:
            kept = root / "kept"
            shutil.copytree(host.state, kept, symlinks=True)
            mount_tmpfs(host.state, _DISK_BYTES)
            shutil.copytree(kept, host.state, symlinks=True, dirs_exist_ok=True)
            body(host)

    alone(run)


def _fill(host: Host) -> pathlib.Path:
    ballast = host.state / "ballast"
    with pytest.raises(OSError, match="No space left"):
        ballast.write_bytes(bytes(_DISK_BYTES))
    return ballast


def _problems(host: Host) -> list[str]:
    return host.agent.condition.unready()


def _full(host: Host) -> Callable[[], None]:
    return _fill(host).unlink


def _read_only(host: Host) -> Callable[[], None]:
    remount(host.state, read_only=True)
    return lambda: remount(host.state, read_only=False)


_DAMAGES = pytest.mark.parametrize("damage", [_full, _read_only])


@_DAMAGES
@pytest.mark.parametrize("running", [False, True])
def test_an_agent_that_can_record_nothing_refuses_and_is_not_ready(
    tmp_path: pathlib.Path, damage: Callable[[Host], Callable[[], None]], running: bool
) -> None:
    def body(host: Host) -> None:
        host.start_agent()
        before = host.whole_card("before", 0)
        host.kubelet.admit(before)
        host.kubelet.start_container(before, "c0", CORE)
        if not running:
            host.stop_agent()
        mend = damage(host)
        if not running:
            host.start_agent()
        host.wait_until(lambda: any("no allocation" in each for each in _problems(host)))
        assert all("on that disk" in each or "mount that disk" in each for each in _problems(host))
        refused = host.whole_card("refused", 1)
        with pytest.raises(AdmissionError, match=r"CheckpointFailed: .*/checkpoint.json: .* disk"):
            host.kubelet.admit(refused)
        host.end(refused, "Failed")
        assert [each.name for each in host.agent.records.all()] == ["before"]
        mend()
        assert card_of(host.kubelet.admit(host.whole_card("next", 1))["c0"]) == "/dev/nvidia1"
        host.agent.inventory.quarantine(card(0).uuid, "a test")  # writes the other file
        host.wait_until(lambda: not _problems(host))

    _on_own_disk(tmp_path, body)


@pytest.mark.usefixtures("short_wait")
@_DAMAGES
def test_the_cards_of_a_pod_that_runs_are_taken_while_no_record_is_kept(
    tmp_path: pathlib.Path, damage: Callable[[Host], Callable[[], None]]
) -> None:
    """The checkpoint is lost, and the disk takes no new one."""

    def body(host: Host) -> None:
        host.start_agent()
        pod = host.whole_card("running", 1)
        answer = host.kubelet.admit(pod)["c0"]
        host.cri.run(pod["metadata"]["uid"], "c0", annotations=answer.annotations)
        host.stop_agent()
        (host.state / "checkpoint.json").unlink()
        mend = damage(host)
        host.start_agent()
        assert [each.name for each in host.agent.records.all()] == ["running"]
        mend()
        with pytest.raises(AdmissionError, match="NoWholeCard"):
            host.kubelet.admit(host.whole_card("second", 1))
        host.agent.recovery.restore()
        host.stop_agent()
        host.start_agent()
        assert [each.name for each in host.agent.records.all()] == ["running"]

    _on_own_disk(tmp_path, body)


@pytest.mark.usefixtures("short_wait")
def test_an_agent_with_a_broken_checkpoint_on_a_bad_disk_ends_in_one_line(
    tmp_path: pathlib.Path,
) -> None:
    def body(host: Host) -> None:
        host.start_agent()
        pod = host.whole_card("running", 1)
        answer = host.kubelet.admit(pod)["c0"]
        host.cri.run(pod["metadata"]["uid"], "c0", annotations=answer.annotations)
        host.stop_agent()
        (host.state / "checkpoint.json").write_text("{")
        mend = _read_only(host)
        with pytest.raises(CheckpointError, match=r"/checkpoint.json: .*; mount that disk for wri"):
            open_records(host.state)
        mend()
        host.start_agent()
        with pytest.raises(AdmissionError, match="NoWholeCard"):
            host.kubelet.admit(host.whole_card("second", 1))

    _on_own_disk(tmp_path, body)


def test_an_agent_without_a_state_folder_ends_with_path_and_remedy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpustack.adapters.nvml.Nvml", lambda: FakeNvml(card(0)))

    def body(host: Host) -> None:
        _read_only(host)
        host.state /= "missing"
        host.write_configuration(host.root / "agent.yml")
        assert main.main(["--config", str(host.root / "agent.yml")]) == 1
        (line,) = [each for each in capfd.readouterr().err.splitlines() if "start" in each]
        assert f"Read-only file system: '{host.state}'; mount that disk for writing" in line

    _on_own_disk(tmp_path, body)


def test_the_states_of_cards_are_missed_once_in_the_log(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    def body(host: Host) -> None:
        host.start_agent()
        _read_only(host)
        for word in ("one", "two"):
            host.agent.inventory.quarantine(card(0).uuid, word)
        assert caplog.text.count("the states of cards are not kept") == 1

    _on_own_disk(tmp_path, body)
