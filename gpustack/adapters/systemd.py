"""A service and systemd: its state by sd_notify(3), its log by sd-daemon(3), its open files.

systemd keeps open files for a service (FDSTORE=1 in sd_pid_notify_with_fds(3)) and passes them to
its next start (sd_listen_fds(3)).
"""

import logging
import os
import socket
import sys
from collections.abc import Mapping
from typing import Final

from gpustack.wire.one_line import one_line

_MICROSECONDS = 1_000_000
_LONGEST_STATUS: Final = 500  # characters: `systemctl status` shows one line
# Characters of a record, four bytes each at most: journald cuts a line after 48 KiB (LineMax= in
# journald.conf(5)), and takes what follows for a line of its own, with a priority of its own.
_LONGEST_RECORD: Final = 10_000
_FIRST_DESCRIPTOR: Final = 3  # SD_LISTEN_FDS_START of sd_listen_fds(3)
_STORE_SECONDS: Final = 1.0  # a service manager that doesn't read gets no descriptor
# syslog priorities, as sd-daemon(3) writes them in front of a line
_PRIORITIES: Final = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


class Notifier:
    """Sends state to the service manager; without one (a terminal, a test) it sends nothing.

    Args:
        address: the socket's path, `@NAME` for an abstract one; empty for no service manager.
    """

    def __init__(self, address: str) -> None:
        self._address = _socket_address(address)

    @classmethod
    def from_environment(cls) -> "Notifier":
        """Use the socket that systemd named for this process."""
        return cls(os.environ.get("NOTIFY_SOCKET", ""))

    def ready(self, status: str) -> None:
        """Say that start-up is over."""
        self._send(f"READY=1\nSTATUS={one_line(status, _LONGEST_STATUS)}")

    def status(self, status: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._send(f"STATUS={one_line(status, _LONGEST_STATUS)}")

    def watchdog(self) -> None:
        """Say that the service is alive."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that the service ends on purpose."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.sendto(text.encode(), self._address)


class DescriptorStore:
    """Keeps open files beyond the end of this process; without a service manager, none.

    systemd keeps them while the unit is restarted, also after a crash, and closes those of a unit
    that is stopped.

    Args:
        address: as `Notifier` has it.
        received: the descriptors that an earlier start has stored.
    """

    def __init__(self, address: str = "", received: tuple[int, ...] = ()) -> None:
        self._address = _socket_address(address)
        self.received = received

    @classmethod
    def from_environment(cls) -> "DescriptorStore":
        """Take the descriptors that systemd passed to this process; its children get none."""
        passed = os.environ.pop("LISTEN_FDS", "0")
        os.environ.pop("LISTEN_FDNAMES", None)
        for_us = os.environ.pop("LISTEN_PID", "") == str(os.getpid())
        count = int(passed) if for_us else 0
        received = tuple(range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + count))
        for descriptor in received:
            os.set_inheritable(descriptor, False)
        return cls(os.environ.get("NOTIFY_SOCKET", ""), received)

    def add(self, name: str, descriptor: int) -> None:
        """Store a descriptor.

        Args:
            name: for `remove`; at most 255 characters of ASCII without a colon.
            descriptor: may be closed afterwards.

        Raises:
            OSError: the service manager doesn't take it.
        """
        self._send({"FDSTORE": "1", "FDNAME": name}, descriptor)

    def remove(self, name: str) -> None:
        """Let the service manager close the descriptors of this name.

        Raises:
            OSError: the service manager doesn't take the message.
        """
        self._send({"FDSTOREREMOVE": "1", "FDNAME": name})

    def _send(self, fields: Mapping[str, str], *descriptors: int) -> None:
        if not self._address:
            return
        text = "\n".join(f"{name}={value}" for name, value in fields.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(_STORE_SECONDS)
            channel.connect(self._address)
            socket.send_fds(channel, [text.encode()], descriptors)


def _socket_address(address: str) -> str:
    return "\0" + address[1:] if address.startswith("@") else address


def watchdog_seconds() -> float:
    """Return the watchdog interval of systemd's unit; 0 when it has none."""
    for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(os.environ.get("WATCHDOG_USEC", "0")) / _MICROSECONDS if for_us else 0.0


class _OneLine(logging.Formatter):
    """Writes each record as one line, its traceback too: no text in it can begin another."""

    def __init__(self, *, journal: bool) -> None:
        # The journal adds the time itself.
        plain = "%(name)s: %(message)s"
        super().__init__(plain if journal else f"%(asctime)s %(levelname)s {plain}")
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_PRIORITIES.get(record.levelno, 6)}>" if self._journal else ""
        return prefix + one_line(super().format(record), _LONGEST_RECORD)


def set_up_log(level: str, *, journal: bool) -> None:
    """Send everything from `level` on to stderr.

    Args:
        level: debug, info, warning or error.
        journal: whether journald reads it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(journal=journal))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
