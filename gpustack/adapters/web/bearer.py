"""The header `Authorization` with a bearer token (RFC 6750, 2.1)."""

import re
from collections.abc import Sequence
from typing import Final

_VALUE: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)")


def bearer_token(values: Sequence[str]) -> str | None:
    """Return the token of a request; None where it shows none, or not one alone.

    Args:
        values: those of the request's headers `Authorization`.
    """
    if len(values) != 1:
        return None
    found = _VALUE.fullmatch(values[0].strip(" \t"))
    return found[1] if found else None
