"""`gpustack-extender` whose `/v1/cluster` waits for a byte.

``python -m tests.extender.http.waiting`` starts it. Two pipes lie beside its configuration: a
request that comes to the answer writes to `inside`, and goes on with a byte of `go`.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from extender import settings
from extender.application import ExtenderApplication
from extender.cache.pods import PodState
from extender.cache.snapshot import ClusterSnapshot, Snapshotter
from extender.extender import Extender
from extender.http.gunicorn_server import GunicornServer
from extender.http.interface import Compose, HttpSettings
from gpustack.adapters.systemd import Notifier

PIPES = ("inside", "go")


@contextlib.contextmanager
def pipes(folder: Path) -> Iterator[tuple[int, int]]:
    """Make the pipes; yields both as open files."""
    for name in PIPES:
        os.mkfifo(folder / name)
    opened = [os.open(folder / name, os.O_RDWR) for name in PIPES]
    try:
        yield opened[0], opened[1]
    finally:
        for each in opened:
            os.close(each)


class _Waiting:
    """A snapshotter that takes each snapshot at a byte of `go`."""

    def __init__(self, snapshotter: Snapshotter, folder: Path) -> None:
        self._snapshotter = snapshotter
        self._inside, self._go = (os.open(folder / name, os.O_RDWR) for name in PIPES)

    def take(self, pod: PodState | None = None) -> ClusterSnapshot:
        os.write(self._inside, b"x")
        os.read(self._go, 1)
        return self._snapshotter.take(pod)


def main(config: Path, server: Callable[[HttpSettings, Compose], Any] = GunicornServer) -> None:
    """Serve as the command does, or with another server."""
    logging.basicConfig(level="INFO", format="%(message)s")
    loaded = settings.load(config)

    def compose() -> ExtenderApplication:
        made = Extender(loaded)
        made.snapshotter = _Waiting(made.snapshotter, config.parent)  # type: ignore[assignment]
        return ExtenderApplication(made, loaded, Notifier.from_environment(), watchdog_seconds=0)

    server(loaded, compose).run()


if __name__ == "__main__":
    main(Path(sys.argv[2]))
