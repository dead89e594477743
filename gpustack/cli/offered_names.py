"""The pods and nodes that a shell offers, read from where the command would read them."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from argcomplete.io import warn

from gpustack.cli import options
from gpustack.model.errors import GpustackError
from gpustack.model.request import BadRequest
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.keys import Keys
from gpustack.wire.pods import parse_readable


def offer(argument: argparse.Action, names: Callable[..., list[str]]) -> None:
    """Have a shell offer these names for an argument's value."""
    vars(argument)["completer"] = names  # where argcomplete looks for it


def pods(*, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Offer the pods that ask for a GPU: names in the namespace that is named, else NAMESPACE/POD.

    Where they can't be read, the shell shows why and offers none.
    """
    return list(_read(parsed_args, _pods))


def nodes(*, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Offer the nodes; where they can't be read, as `pods`."""
    return list(_read(parsed_args, _nodes))


def _read(
    chosen: argparse.Namespace, names: Callable[[argparse.Namespace, Snapshot], Iterator[str]]
) -> Iterator[str]:
    try:
        yield from names(chosen, options.read(chosen))
    except GpustackError as error:
        warn(str(error))


def _nodes(_: argparse.Namespace, snapshot: Snapshot) -> Iterator[str]:
    yield from (str(each["metadata"]["name"]) for each in snapshot.nodes)


def _pods(chosen: argparse.Namespace, snapshot: Snapshot) -> Iterator[str]:
    keys = Keys(chosen.domain)
    for pod in snapshot.pods:
        name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace") or "default"
        if not _asks(keys, pod):
            continue
        if not chosen.namespace:
            yield f"{namespace}/{name}"
        elif chosen.namespace == namespace:
            yield str(name)


def _asks(keys: Keys, pod: Mapping[str, Any]) -> bool:
    try:
        return parse_readable(keys, pod)[0] is not None
    except BadRequest:
        return True  # `explain` says what is wrong with it
