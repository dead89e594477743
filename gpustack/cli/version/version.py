"""``gpustack version``: which release each part of a cluster, or of this host, is of.

The JSON follows the schema `version.json` beside the other schemas.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

import gpustack
from gpustack.cli import options
from gpustack.cli.doctor.host.reading import HostLocations
from gpustack.cli.output import printing
from gpustack.cli.version import cluster_parts, host_parts
from gpustack.cli.version.part import Part, part

_HEAD: Final = ("PART", "VERSION", "NODES", "NAMES")
_SHOWN: Final = 4  # names of nodes in a line
_UNSAID: Final = "unknown"  # of an agent's record that doesn't say it


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "version",
        help="which release each part is of",
        description="Print the versions of this command, the API server, and each node's agent,"
        " hook, driver, kubelet, container runtime, kernel and system: a line for each version,"
        " with the nodes that have it. With --host, as root, those of this host, with the extender"
        " that its scheduler asks.",
        epilog="exit status: 0, or 1 where a part doesn't say its version, which stderr names",
    )
    parser.add_argument("--host", action="store_true", help="of this host, not of a cluster")
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the versions; 1 where one can't be read.

    Raises:
        GpustackError: the cluster or the file can't be read.
    """
    for name in ("kubeconfig", "context", "snapshot") if chosen.host else ():
        if getattr(chosen, name) is not None:
            chosen.parser.error(f"argument --{name}: not allowed with argument --host")
    read = host_parts.read(HostLocations()) if chosen.host else cluster_parts.read(chosen)
    return show(chosen.output, [part("client", gpustack.__version__), *read])


def show(output: str, parts: Sequence[Part]) -> int:
    """Print the versions; 1 where one is missing."""
    if output == "json":
        printing.show("json", [], {"parts": [asdict(each) for each in parts]})
    else:
        printing.show_tables([[_HEAD, *_rows(parts)]])
    unread = [each for each in parts if each.problem]
    for each in unread:
        place = f" of node {each.node}" if each.node else ""
        printing.tell(f"{each.part}{place}: {each.problem}")
    return 1 if unread else 0


def _rows(parts: Sequence[Part]) -> Iterator[Sequence[object]]:
    """Yield a line for each version of each part; parts in their order, versions by the first."""
    found: dict[str, dict[str, list[str]]] = {}
    for each in parts:
        if not each.problem:
            versions = found.setdefault(each.part, {})
            versions.setdefault(each.version or _UNSAID, []).append(each.node)
    for name, versions in found.items():
        for version, nodes in versions.items():
            yield name, version, *_where(nodes)


def _where(nodes: Sequence[str]) -> tuple[object, str]:
    """Return how many nodes these are, and the first names; nothing of what is on no node."""
    if not any(nodes):
        return "-", "-"
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return len(nodes), f"{', '.join(nodes[:_SHOWN])}{more}"
