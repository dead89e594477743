"""Files that several questions are asked with: a pod, a trace. Errors name file and place."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpustack.cli.source import SourceError
from gpustack.model.device import Node
from gpustack.model.replay import Arrival
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.annotations import Keys
from gpustack.wire.pods import parse_request
from gpustack.wire.trace import parse_trace
from gpustack.wire.workloads import parse_workload


def positive(text: str) -> int:
    """Read a number of things on the command line.

    Raises:
        argparse.ArgumentTypeError: not a whole number above 0.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def text_of(path: str) -> str:
    """Return a file's text; ``-`` is the standard input.

    Raises:
        SourceError: it can't be read, or isn't UTF-8.
    """
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: is not UTF-8 at byte {error.start}") from error


def pod(keys: Keys, path: str) -> tuple[Mapping[str, Any], PodRequest]:
    """Return the pod of a file and what it asks.

    Raises:
        SourceError: it asks for no GPU, or for what doesn't exist; names the field.
        BadWorkload: there is no pod in it.
    """
    found = parse_workload(path, text_of(path))
    try:
        request = parse_request(keys, found.pod)
    except BadRequest as error:
        raise SourceError(f"{path}: {found.place(error.message)}") from error
    if request is None:
        limits = found.place("spec.containers[].resources.limits")
        raise SourceError(f"{path}: {limits}: asks for no GPU; set {keys.vcuda_core}")
    return found.pod, request


def trace(path: str, nodes: Iterable[Node]) -> tuple[Arrival, ...]:
    """Return a trace; where it doesn't name memory, a share is one of the smallest card.

    Raises:
        SourceError: the file can't be read.
        BadTrace: it can't be played.
    """
    sizes = [card.memory_units for node in nodes for card in node.cards]
    return parse_trace(path, text_of(path), card_memory_units=min(sizes, default=1))
