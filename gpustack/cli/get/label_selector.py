"""A label selector as kubectl takes it: `a=b,c!=d,e in (f,g),!h`.

The grammar is Kubernetes' own:
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Final

from gpustack.model.cluster.eligibility import Operator, Requirement
from gpustack.wire.quoting import quoted

_KEY: Final = r"(?P<key>[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?)"
_VALUE: Final = r"[A-Za-z0-9]?[A-Za-z0-9._-]*"
_FORMS: Final = tuple(
    (re.compile(form.replace("KEY", _KEY).replace("VALUE", _VALUE)), operator)
    for form, operator in (
        (r"KEY\s*={1,2}\s*(?P<values>VALUE)", Operator.IN),
        (r"KEY\s*!=\s*(?P<values>VALUE)", Operator.NOT_IN),
        (r"KEY\s+in\s*\((?P<values>[^()]*)\)", Operator.IN),
        (r"KEY\s+notin\s*\((?P<values>[^()]*)\)", Operator.NOT_IN),
        (r"!\s*KEY", Operator.DOES_NOT_EXIST),
        (r"KEY", Operator.EXISTS),
    )
)
_PARTS: Final = re.compile(r",(?![^(]*\))")  # a comma between parentheses separates values
_LONGEST: Final = 4096  # characters; a command line holds no more by hand

LabelSelector = tuple[Requirement, ...]
"""Requirements of an object's labels that must all be met."""


def parse_label_selector(text: str) -> LabelSelector:
    """Read a selector on the command line; an empty one selects everything.

    Raises:
        argparse.ArgumentTypeError: it isn't one; names the part.
    """
    if len(text) > _LONGEST:
        raise argparse.ArgumentTypeError(
            f"the selector has {len(text)} characters; {_LONGEST} are the most"
        )
    if not text.strip():
        return ()
    return tuple(_requirement(part.strip()) for part in _PARTS.split(text))


def _requirement(part: str) -> Requirement:
    for form, operator in _FORMS:
        found = form.fullmatch(part)
        if found is not None:
            values = tuple(_values(part, found.groupdict().get("values")))
            return Requirement(key=found["key"], operator=operator, values=values)
    raise argparse.ArgumentTypeError(
        f"{quoted(part)} is not KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY or !KEY"
    )


def _values(part: str, text: str | None) -> Iterator[str]:
    for value in () if text is None else text.split(","):
        if not re.fullmatch(_VALUE, value.strip()):
            raise argparse.ArgumentTypeError(f"{quoted(part)}: {quoted(value)} is no label's value")
        yield value.strip()


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Say whether these labels meet a selector."""
    return all(each.met(labels) for each in selector)
