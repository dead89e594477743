"""The header `Host` (RFC 9110, 7.2): whether a request was meant for the server that got it.

DNS rebinding lets a web page's own name resolve to this server: for the browser the page is then of
our origin, and reads every answer. Its requests name its host, so a server answers only under
names that it knows to be its own.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

SETTING: Final = "allowed_hosts"
"""The setting with further names, in the configuration of every server of ours."""

# A name has at most 253 characters (RFC 1035, 2.3.4), a port five digits.
_LONGEST: Final = 253 + len(":65535")
_VALUE: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{0,5}))?"
)
_LOCAL: Final = "localhost"
_SHOWN: Final = 80  # of a wrong value, in an error


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """The answer to a refused request: the status of HTTP, and a text that names the field."""

    status: int
    text: str


class AllowedHosts:
    """The names under which a server answers; those of loopback always belong to them."""

    def __init__(self, names: Iterable[str] = (), *, any_name: bool = False) -> None:
        """Take names and addresses, without ports; addresses of IPv6 with or without brackets.

        With ``any_name`` a header must be well formed, and may name any server.
        """
        self._any_name = any_name
        self._names = frozenset(_normal(name.strip("[]")) for name in names)

    def refusal(self, values: Sequence[str], *, required: bool = True) -> HttpRefusal | None:
        """Say why a request isn't answered; None when it is.

        Args:
            values: those of the request's headers `Host`.
            required: it must have one, as every request of HTTP/1.1 (RFC 9112, 3.2).
        """
        if not values and not required:
            return None
        if len(values) != 1:
            return HttpRefusal(
                400, f"Host: {len(values)} headers; send one, with the host asked for"
            )
        value = values[0]
        found = _VALUE.fullmatch(value) if len(value) <= _LONGEST else None
        if found is None or int(found["port"] or 0) > 65535:
            return HttpRefusal(400, f"Host: {value[:_SHOWN]!r} is no host with or without a port")
        name = _normal(found["v6"] or found["name"])
        if self._any_name or name == _LOCAL or name in self._names or _is_loopback(name):
            return None
        # 421 (RFC 9110, 15.5.20): the request has reached a server that isn't meant.
        return HttpRefusal(
            421,
            f"Host: {value[:_SHOWN]!r} is no name of this server; ask by a loopback name or the "
            f"address that it listens on, or add the name to {SETTING}",
        )


def _normal(name: str) -> str:
    """Return the canonical form of a name or address, for comparison."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
