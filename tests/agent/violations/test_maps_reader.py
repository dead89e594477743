"""Reading the memory maps of processes that keep their readers waiting."""

import os
import pathlib
import threading

import pytest

from gpustack.agent.violations import maps_reader
from gpustack.agent.violations.maps_reader import MapsBusyError, MapsReader

PROCESSES = 300


def test_one_containers_maps_keep_no_other_containers_from_being_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that waits for a FIFO is as one that waits for the kernel."""
    monkeypatch.setattr(maps_reader, "_WAIT_SECONDS", 0.001)
    reader = MapsReader(("libvcuda.so",), tmp_path)
    for pid in range(1, PROCESSES + 1):
        (tmp_path / str(pid)).mkdir()
        os.mkfifo(tmp_path / str(pid) / "maps")
    (tmp_path / "999").mkdir()
    (tmp_path / "999" / "maps").write_text("7f00-7f01 r-xp 00000000 fd:01 7 /x/libvcuda.so\n")
    try:
        for pid in range(1, PROCESSES + 1):
            with pytest.raises(MapsBusyError):
                reader.of(pid, ("uid-one", "main"))
        monkeypatch.setattr(maps_reader, "_WAIT_SECONDS", 10)
        assert reader.of(999, ("uid-two", "main")) == frozenset({(b"fd:01", 7, "libvcuda.so")})
    finally:
        for pid in range(1, PROCESSES + 1):
            (tmp_path / str(pid) / "maps").rename(tmp_path / str(pid) / "fifo")
            os.close(os.open(tmp_path / str(pid) / "fifo", os.O_RDWR | os.O_NONBLOCK))
    for thread in threading.enumerate():
        if thread.name == "maps":
            thread.join()
