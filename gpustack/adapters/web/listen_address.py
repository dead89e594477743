"""Addresses to listen on, as configurations write them: HOST:PORT."""

import ipaddress


def split_listen(listen: str, *, tls: bool) -> tuple[str, int, str]:
    """Return an address's host and port, and what is wrong with it; "" when nothing is."""
    host, _, digits = listen.rpartition(":")
    host, port = host.strip("[]"), int(digits)
    if port > 65535:
        return host, port, "has no such port; write 1 to 65535"
    if host == "localhost":
        return host, port, ""
    try:
        loopback = is_loopback(host)
    except ValueError:
        return host, port, "is not an IP address; write 127.0.0.1:3456"
    if not loopback and not tls:
        # A client that reaches the port can have cards reserved for any pod.
        return (
            host,
            port,
            "is not a loopback address; plain HTTP is served to this host only: set tls, or listen "
            "on 127.0.0.1",
        )
    return host, port, ""


def is_loopback(host: str) -> bool:
    """Tell whether an IP address is this host's own.

    Raises:
        ValueError: not an IP address.
    """
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)  # how a socket for both families shows IPv4
    return (mapped or address).is_loopback
