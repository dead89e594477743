"""The program `gpustack-mount`: gives each share a tmpfs of its own for its three files.

A tenant may write its ledger, and on the host's disk make it as large as that. A tmpfs of exactly
the files' size takes no byte more, and no program in it is run on the host.

The container runtime looks for the files in the host's mount namespace, and the agent's unit has
one of its own (ProtectSystem=). So this is a process of its own, in the host's, which does nothing
else: it has CAP_SYS_ADMIN, which the agent has not, and mounts nothing but this, nowhere but on
`<state>/containers/<podUID>/<container>`. Its mounts outlive it, and the agent.
"""

import argparse
import contextlib
import logging
import os
import pathlib
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from gpustack import __version__
from gpustack.adapters import mapped, tmpfs
from gpustack.adapters.systemd import Notifier, set_up_log
from gpustack.command_line import Parser
from gpustack.wire.mount_request import (
    DONE,
    FOLDER,
    MOST_BYTES,
    BadMountRequest,
    MountRequest,
    Verb,
    decode,
)

logger = logging.getLogger(__name__)

_REQUEST_SECONDS: Final = 1.0  # root alone gets to the socket; one client waits for another
_WAITING: Final = 128  # connections; PreStartContainer is answered one at a time

_FOLDER_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer requests until SIGTERM.

    Returns:
        1 after a failure.
    """
    options = _parser().parse_args(arguments)
    set_up_log("info", journal="JOURNAL_STREAM" in os.environ)
    try:
        with _listen(options.socket) as listener:
            Notifier.from_environment().ready(f"mounts below {options.state / FOLDER}")
            serve(listener, options.state)
    except OSError as error:
        logger.critical("ends: %s", error)
    return 1


def serve(listener: socket.socket, state: pathlib.Path) -> None:
    """Answer one request after the other until the listener is shut down.

    Args:
        listener: a SOCK_SEQPACKET socket that listens.
        state: the agent's `state_dir`.

    Raises:
        OSError: no connection can be accepted, as after `shutdown`.
    """
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_REQUEST_SECONDS)
            try:
                connection.send(_answer(connection.recv(MOST_BYTES), state))
            except OSError as error:
                logger.warning("a client has left, or sends nothing: %s", error)


def _answer(packet: bytes, state: pathlib.Path) -> bytes:
    try:
        request = decode(packet)
        _carry_out(request, state)
    except (BadMountRequest, OSError) as error:
        logger.error("refused: %s", error)
        return str(error).encode()[:MOST_BYTES]
    logger.info("%s pod_uid=%s container=%s", request.verb, request.pod_uid, request.container)
    return DONE


def _carry_out(request: MountRequest, state: pathlib.Path) -> None:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    pages = sum(-(-form.size_bytes // page_bytes) for form in mapped.FORMS.values())
    with _opened(state, FOLDER, request.pod_uid) as pod:
        _unmount(pod, request.container)
        if request.verb is Verb.MAKE:
            with _below(pod, request.container) as folder:
                tmpfs.mount(folder, size_bytes=pages * page_bytes, inodes=mapped.INODES)


def _unmount(pod: int, container: str) -> None:
    while True:
        with _below(pod, container) as folder:
            if os.fstat(folder).st_dev == os.fstat(pod).st_dev:
                return
            tmpfs.detach(folder)


@contextlib.contextmanager
def _opened(state: pathlib.Path, *names: str) -> Iterator[int]:
    """Open a folder below the state folder, which alone a site may have made a link."""
    with contextlib.ExitStack() as stack:
        folder = os.open(state, _FOLDER_FLAGS)
        stack.callback(os.close, folder)
        for name in names:
            folder = stack.enter_context(_below(folder, name))
        yield folder


@contextlib.contextmanager
def _below(folder: int, name: str) -> Iterator[int]:
    found = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield found
    finally:
        os.close(found)


def _listen(path: pathlib.Path) -> socket.socket:
    path.unlink(missing_ok=True)  # of one that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    os.umask(0o177)  # the socket is root's alone
    listener.bind(str(path))
    listener.listen(_WAITING)
    return listener


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="gpustack-mount", description="mounts the tmpfs of each share")
    parser.add_argument(
        "--state", type=pathlib.Path, required=True, metavar="DIR", help="state_dir of agent.yml"
    )
    parser.add_argument(
        "--socket", type=pathlib.Path, required=True, metavar="FILE", help="where it listens"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
