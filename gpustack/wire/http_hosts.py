"""By which names a request may call one of our servers: its `Host` against a list.

A page of another site can have its own name resolve to a loopback address, on a host of ours or at
the end of a tunnel, and then read what is served there (DNS rebinding). The browser still sends
that page's name as `Host`, so a name that is none of ours gives it away.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

# A name, an IPv4 address, or an IPv6 address in brackets; a port may follow (RFC 9110, 7.2). No
# name is longer than 253 characters (RFC 1035, 2.3.4).
_HOST: Final = re.compile(
    r"(?:(?P<name>[A-Za-z0-9._-]{1,254})|\[(?P<v6>[0-9A-Fa-f:.]{2,45})\])(?::[0-9]{0,5})?"
)
_LOCALHOST: Final = "localhost"


def is_known_host(header: str, names: Iterable[str]) -> bool:
    """Say whether a `Host` header names us: a loopback name or address, or one of `names`.

    The port is not looked at: through a tunnel it is another one. A browser can't be made to say a
    loopback address by any page but one that was served there.

    Args:
        header: the header's value; empty where the request has none, which names nobody.
        names: host names and IP addresses, without ports.
    """
    match = _HOST.fullmatch(header)
    if match is None:
        return False
    host = _plain(match["name"] or match["v6"])
    return host == _LOCALHOST or _is_loopback(host) or host in map(_plain, names)


def _plain(host: str) -> str:
    """Return the one spelling of a name or an address."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
