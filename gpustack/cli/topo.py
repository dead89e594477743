"""``gpustack topo``: the cards of this host, or of an `nvidia-smi topo -m` text, and their tree.

Drawn for people by default; ``--format tree`` is the original's `/graph`, ``matrix`` is laid out
like `nvidia-smi topo -m`, ``cost`` is the access-cost tree (type : available : cost).
"""

import argparse
import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gpustack.cli import options
from gpustack.cli.output import printing
from gpustack.model.errors import GpustackError
from gpustack.model.node import Node
from gpustack.model.topology import card_tree, tree_text
from gpustack.wire.files.source import bytes_of, title
from gpustack.wire.nodes import encode_devices
from gpustack.wire.topo.parser import BadTopoText, parse

_MIB: Final = 1 << 20
_MOST_MIB: Final = (1 << 33) - 1  # what the annotation's number of bytes can hold exactly
_FROM_TEXT: Final = "give what `nvidia-smi topo -m` prints there with --from-text"
_LEVEL_NAMES: Final[Mapping[card_tree.TreeLevel, str]] = MappingProxyType(
    {**tree_text.NAMES, card_tree.TreeLevel.CARD: "GPU"}
)


class TopoError(GpustackError):
    """Cards that can't be read, or options that contradict each other."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("topo", help="how this host's cards are joined")
    parser.add_argument(
        "--from-text", metavar="FILE", help="read `nvidia-smi topo -m` from here; - is a pipe"
    )
    parser.add_argument(
        "--memory-mib", type=_mebibytes, metavar="N", help="of every card of the text"
    )
    parser.add_argument("--model", metavar="NAME", help="of every card of the text")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--annotation", action="store_true", help="print the value of the node's gpu-devices"
    )
    form.add_argument("--format", choices=("tree", "matrix", "cost"))
    options.add_output(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the cards; 1 when this host has none."""
    if chosen.output == "json" and (chosen.annotation or chosen.format is not None):
        other = "--annotation" if chosen.annotation else "--format"
        chosen.parser.error(f"argument {other}: not allowed with argument -o json")
    node = _read(chosen)
    if not node.cards:
        printing.tell("this host has no card")
        return 1
    root = card_tree.of(node)
    if chosen.annotation:
        print(encode_devices(node))
    elif chosen.output == "json":
        printing.show(chosen.output, (), as_json(node, root))
    else:
        print(_drawn(chosen.format, node, root), end="")
    return 0


def _mebibytes(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_MIB:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB, 0 to {_MOST_MIB}")
    return int(text)


def _drawn(form: str | None, node: Node, root: card_tree.Branch) -> str:
    match form:
        case "tree":
            return tree_text.graph(node, root)
        case "cost":
            return tree_text.costs(node, root)
        case "matrix":
            return tree_text.matrix(node)
        case _:
            return tree_text.plain(node, root)


def _read(chosen: argparse.Namespace) -> Node:
    """Return the node of the text, or of this host.

    Raises:
        SourceError: the file can't be read.
        TopoError: a text's option without a text.
        BadTopoText: the text shows no matrix.
        NvmlError: no driver.
    """
    if chosen.from_text is None:
        if chosen.memory_mib is not None or chosen.model is not None:
            raise TopoError(
                "--memory-mib and --model describe the cards of a text; give one with --from-text"
            )
        return _host()
    name = title(chosen.from_text)
    data = bytes_of(chosen.from_text)
    memory_bytes = (chosen.memory_mib or 0) * _MIB
    try:
        return parse(data, name=name, model=chosen.model or "", memory_bytes=memory_bytes)
    except BadTopoText as error:
        raise TopoError(f"{name}: {error}") from None


def _host() -> Node:
    # Here, so that the other commands work where the NVML binding isn't installed.
    try:
        from gpustack.adapters.nvml import Nvml, NvmlError  # noqa: PLC0415
    except ImportError as error:
        raise TopoError(
            "this host's cards are read with the Python package nvidia-ml-py, which is not "
            f"installed: install it, or {_FROM_TEXT}"
        ) from error
    try:
        nvml = Nvml()
    except NvmlError as error:
        raise TopoError(f"{error}; where the cards are in another host, {_FROM_TEXT}") from error
    try:
        found = nvml.inventory()
    finally:
        nvml.close()
    return Node(
        name=platform.node(),
        cards=found.cards,
        links=found.links,
        paths=found.paths,
        driver=found.driver,
        cuda=found.cuda,
    )


def as_json(node: Node, root: card_tree.Branch) -> dict[str, Any]:
    """Return the cards, their links, costs and tree as plain values (schemas/topo.json)."""
    size = range(len(node.cards))
    return {
        "node": node.name,
        "driver": node.driver,
        "cuda": node.cuda,
        "cards": [
            {
                "minor": card.minor,
                "uuid": card.uuid,
                "model": card.model,
                "memory_bytes": card.memory_bytes,
                "sms": card.sms,
                "numa": card.numa,
                "bus": card.bus,
            }
            for card in node.cards
        ],
        "links": [[node.link(a, b).token for b in size] for a in size],
        "costs": [[node.link(a, b).cost for b in size] for a in size],
        "tree": _branch(node, root),
    }


def _branch(node: Node, branch: card_tree.Branch) -> dict[str, Any]:
    return {
        "level": _LEVEL_NAMES[branch.level],
        "minors": [node.cards[card].minor for card in branch.cards],
        "children": [_branch(node, child) for child in branch.children],
    }
