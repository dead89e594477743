"""Kubernetes quantities as whole numbers, read the way Go's `Quantity.Value()` reads them.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ : a decimal
number with a binary suffix (Ki ... Ei), a decimal one (n u m k M G T P E) or a decimal exponent.
"""

import decimal
import re
from typing import Final

from gpustack.wire.quoting import quoted

_BINARY: Final = {f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")}
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_LARGEST: Final = 2**63 - 1  # Value() is an int64


def parse_quantity(value: object) -> int:
    """Return a quantity as a whole number, fractions rounded away from zero (`500m` is 1).

    Raises:
        ValueError: not a quantity, or larger than an int64. The text says what is allowed.
    """
    return _rounded(value, _exactly(value))


def parse_whole(value: object) -> int:
    """Return a quantity that must be a whole number, as extended resources are.

    Raises:
        ValueError: as `parse_quantity`; or a fraction, which the API server refuses for them.
    """
    exact = _exactly(value)
    whole = _rounded(value, exact)
    if whole != exact:
        raise ValueError(
            f"{quoted(value)} is not a whole number, and Kubernetes takes no part of a unit"
        )
    return whole


def _rounded(value: object, exact: decimal.Decimal) -> int:
    whole = int(exact.to_integral_value(rounding=decimal.ROUND_UP, context=_context()))
    if abs(whole) > _LARGEST:
        raise ValueError(f"{quoted(value)} is larger than any node")
    return whole


def _context() -> decimal.Context:
    return decimal.Context(prec=120, Emax=9999, Emin=-9999)


def _exactly(value: object) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{quoted(value)} is not a quantity; write a whole number")
    found = _QUANTITY.fullmatch(str(value))
    if found is None:
        raise ValueError(f"{quoted(value)} is not a quantity; write a whole number")
    context = _context()
    number = context.create_decimal(found["number"])
    if found["binary"]:
        return context.multiply(number, decimal.Decimal(_BINARY[found["binary"]]))
    power = int(found["exponent"]) if found["exponent"] else _DECIMAL[found["decimal"] or ""]
    return context.scaleb(number, power)
