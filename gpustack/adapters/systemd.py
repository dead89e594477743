"""Telling systemd how the service is: the notification protocol of sd_notify(3)."""

import os
import socket

_MICROSECONDS = 1_000_000


class Notifier:
    """Sends state to the service manager; without one (a terminal, a test) it sends nothing.

    Args:
        address: the socket's path, `@NAME` for an abstract one; empty for no service manager.
    """

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @classmethod
    def from_environment(cls) -> "Notifier":
        """Use the socket that systemd named for this process."""
        return cls(os.environ.get("NOTIFY_SOCKET", ""))

    def ready(self, status: str) -> None:
        """Say that start-up is over."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._send(f"STATUS={status}")

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


def watchdog_seconds() -> float:
    """Return how often systemd wants to hear from us at least; 0 when it doesn't."""
    for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(os.environ.get("WATCHDOG_USEC", "0")) / _MICROSECONDS if for_us else 0.0
