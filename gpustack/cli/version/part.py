"""A part of a site, and which version of it runs where."""

from collections.abc import Callable
from dataclasses import dataclass

from gpustack.model.errors import GpustackError
from gpustack.wire.one_line import one_line

_LONGEST_VERSION = 96  # characters; a kernel's release has 64 at most, a runtime's name is short
_LONGEST_PROBLEM = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part at one place; texts are one line each, without control characters.

    Attributes:
        part: which.
        node: where; empty where there is one for the cluster, or it is of this host.
        version: as the part says it; empty where it doesn't.
        problem: why its version can't be read; empty where it can.
    """

    part: str
    node: str = ""
    version: str = ""
    problem: str = ""


def part(name: str, version: str, node: str = "") -> Part:
    """Return a part with what it says, shortened where it says too much."""
    return Part(part=name, node=node, version=one_line(version, _LONGEST_VERSION))


def unread(name: str, error: GpustackError | OSError, node: str = "") -> Part:
    """Return a part whose version can't be read."""
    return Part(part=name, node=node, problem=one_line(str(error), _LONGEST_PROBLEM))


def take(name: str, question: Callable[[], str]) -> Part:
    """Ask for a part's version."""
    try:
        return part(name, question())
    except (GpustackError, OSError) as error:
        return unread(name, error)
