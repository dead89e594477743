"""`gpustack-extender` that logs how many handshakes came before a call of a verb.

``python -m tests.extender.tls.handshakes``.
"""

import logging
import sys
from concurrent.futures import Future
from pathlib import Path

from extender import settings
from extender.application import ExtenderApplication
from extender.extender import Extender
from extender.http.connection import ClientConnection
from extender.http.gunicorn_server import GunicornServer
from extender.http.request_threads import RequestThreads
from gpustack.adapters.systemd import Notifier
from gpustack.adapters.web.tls import TlsContext, TlsContexts


def count() -> None:
    """Have the server's classes count the connections that begin to shake hands."""
    begun: list[TlsContexts] = []
    current, submit = TlsContexts.current, RequestThreads.submit

    def counted(contexts: TlsContexts) -> TlsContext:
        begun.append(contexts)
        return current(contexts)

    def told(threads: RequestThreads, conn: ClientConnection) -> Future[bool]:
        if conn.deciding:
            logging.info("to be decided after %d handshakes", len(begun))
        return submit(threads, conn)

    TlsContexts.current = counted  # type: ignore[assignment, method-assign]
    RequestThreads.submit = told  # type: ignore[assignment, method-assign]


def main(config: Path) -> None:
    """Serve as the command does."""
    logging.basicConfig(level="INFO", format="%(message)s")
    loaded = settings.load(config)

    def compose() -> ExtenderApplication:
        made = Extender(loaded)
        return ExtenderApplication(made, loaded, Notifier.from_environment(), watchdog_seconds=0)

    count()
    GunicornServer(loaded, compose).run()


if __name__ == "__main__":
    main(Path(sys.argv[2]))
