"""`gpustack-extender` that logs how many handshakes came before a decision is to be answered.

``python -m tests.extender.handshakes``.
"""

import logging
import ssl
import sys
from pathlib import Path

from extender import settings
from extender.http.connection import ClientConnection
from extender.http.server import Server
from extender.http.tls import TlsContexts, TlsFiles
from extender.http.worker import Worker
from gpustack.adapters.systemd import Notifier


class _Counting(TlsContexts):
    """Counts the connections that begin to shake hands."""

    begun = 0

    def __init__(self, files: TlsFiles) -> None:
        super().__init__(files)
        enqueue = Worker.enqueue_req

        def told(worker: Worker, conn: ClientConnection) -> None:
            if conn.deciding:
                logging.info("to be decided after %d handshakes", self.begun)
            enqueue(worker, conn)

        Worker.enqueue_req = told  # type: ignore[assignment, method-assign]

    def current(self) -> ssl.SSLContext:
        self.begun += 1
        return super().current()


def main(config: Path) -> None:
    """Serve as the command does."""
    logging.basicConfig(level="INFO", format="%(message)s")
    loaded = settings.load(config)
    assert loaded.tls is not None
    Server(
        loaded,
        notifier=Notifier.from_environment(),
        watchdog_seconds=0,
        contexts=_Counting(loaded.tls),
    ).run()


if __name__ == "__main__":
    main(Path(sys.argv[2]))
