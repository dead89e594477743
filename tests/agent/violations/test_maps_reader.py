"""Reading the memory maps of processes that keep their readers waiting."""

import contextlib
import os
import pathlib
import threading
from collections.abc import Iterator

import pytest

from gpustack.agent.violations import maps_reader
from gpustack.agent.violations.maps_reader import MapsBusyError, MapsReader
from tests.agent.activity.activity import Stage

PROCESSES = 300
LINE = "7f00-7f01 r-xp 00000000 fd:01 7 /x/libvcuda.so\n"


@contextlib.contextmanager
def busy(proc: pathlib.Path, pids: range) -> Iterator[None]:
    """Let maps not come: a reader that waits for a FIFO is as one that waits for the kernel."""
    for pid in pids:
        (proc / str(pid)).mkdir(exist_ok=True)
        (proc / str(pid) / "maps").unlink(missing_ok=True)
        os.mkfifo(proc / str(pid) / "maps")
    try:
        yield
    finally:
        for pid in pids:
            (proc / str(pid) / "maps").rename(proc / str(pid) / "fifo")
            os.close(os.open(proc / str(pid) / "fifo", os.O_RDWR | os.O_NONBLOCK))
        for thread in threading.enumerate():
            if thread.name == "maps":
                thread.join()


@pytest.mark.parametrize("of_one", [PROCESSES, 4], ids=["of one", "of many"])
def test_busy_maps_keep_no_other_containers_from_being_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, of_one: int
) -> None:
    monkeypatch.setattr(maps_reader, "_WAIT_SECONDS", 0.001)
    reader = MapsReader(("libvcuda.so",), tmp_path)
    (tmp_path / "999").mkdir()
    (tmp_path / "999" / "maps").write_text(LINE)
    pids = range(1, PROCESSES + 1)
    with busy(tmp_path, pids):
        for pid in pids:
            with pytest.raises(MapsBusyError):
                reader.of(pid, (f"uid-{pid // of_one}", "main"))
        monkeypatch.setattr(maps_reader, "_WAIT_SECONDS", 10)
        assert reader.of(999, ("uid-two", "main")) == frozenset({(b"fd:01", 7, "libvcuda.so")})
        threads = [each for each in threading.enumerate() if each.name == "maps"]
        assert len(threads) < PROCESSES


def test_processes_whose_maps_do_not_come_hide_no_other(stage: Stage) -> None:
    container = stage.share("one")
    pids = [stage.process(container, memory_bytes=0) for _ in range(4)]
    stage.process(container, memory_bytes=0, maps=())
    with busy(stage.proc, range(pids[0], pids[-1] + 1)):
        for _ in range(10):
            stage.sampler.look()
        assert [each.reason for each in stage.events] == ["UnhookedProcess"]
