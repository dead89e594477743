"""``gpustack get pods|nodes|cards|quotas``: what there is, with filters and sums.

The JSON follows the schema `get.json` beside the other schemas.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gpustack.adapters.kube import KubeClient
from gpustack.cli import clusters, offered_names, options, source
from gpustack.cli.get import cards, nodes, pods, quotas
from gpustack.cli.get.filters import Filters, Question
from gpustack.cli.get.follow import ClusterFollower
from gpustack.cli.get.label_selector import parse_label_selector
from gpustack.cli.output import listing as output
from gpustack.cli.output import printing
from gpustack.cli.output.listing import Listing
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.files.source import SourceError
from gpustack.wire.keys import Keys

_QUOTAS: Final = "quotas"
_KINDS: Final[Mapping[str, Callable[[Question], Listing]]] = {
    "pods": pods.listing,
    "nodes": nodes.listing,
    "cards": cards.listing,
    _QUOTAS: quotas.listing,
}
_DESCRIPTION: Final = """\
List the pods that ask for GPUs (those that wait and those that hold cards), the nodes with cards,
the cards, or the quotas of namespaces, with their sums. Cards of a sum are free where a healthy
card has a free part."""
_NAMES: Final = """\
-o name prints the words that other commands take: NAMESPACE/POD (explain), NODE (what-if --drain),
a card's UUID (card), NAMESPACE. Waiting pods are on no node and in no pool; --model takes those
that would take such a card. With -w each line begins with what happened: ADDED, MODIFIED, DELETED.

exit status: 0, or 1 where a node or pod could not be read, which stderr names"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "get",
        help="list pods, nodes, cards or quotas",
        description=_DESCRIPTION,
        epilog=_NAMES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=tuple(_KINDS))
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        default="",
        help="its pods, what its pods hold cards of, or its quota; default: all",
    )
    where.add_argument(
        "-A", "--all-namespaces", action="store_true", help="the default, as kubectl writes it"
    )
    node = parser.add_argument("--node", metavar="NODE", default="", help="what is on this node")
    offered_names.offer(node, offered_names.nodes)
    parser.add_argument("--pool", metavar="POOL", default="", help="what is in this pool")
    parser.add_argument(
        "--model", metavar="MODEL", default="", help="of cards, as a quota names it: A100"
    )
    parser.add_argument(
        "-l",
        "--selector",
        metavar="SELECTOR",
        type=parse_label_selector,
        default=(),
        help="of the labels of pods, or of nodes for nodes and cards: a=b,c!=d,e in (f,g),!h",
    )
    parser.add_argument(
        "--state", metavar="STATE", choices=pods.STATES, action="append", default=[],
        help=f"of pods: {', '.join(pods.STATES)}; may be given several times",
    )  # fmt: skip
    parser.add_argument("-w", "--watch", action="store_true", help="go on, and print changes")
    parser.add_argument(
        "--no-headers", action="store_true", help="a table without headings and sums"
    )
    options.add_reading(parser, output.FORMS)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print a list; 1 when a node or pod could not be read, which stderr names.

    Raises:
        GpustackError: the cluster or the file can't be read, or there is no such node.
    """
    _check(chosen)
    if chosen.watch:
        return _watch(chosen)
    keys, snapshot = Keys(chosen.domain), options.read(chosen)
    found = _list(chosen, keys, snapshot)
    unread = clusters.tell_unread(keys, snapshot)
    output.show(found, chosen.output, headers=not chosen.no_headers)
    return 1 if unread else 0


def _check(chosen: argparse.Namespace) -> None:
    """End with status 2 where options mean nothing together."""
    if chosen.kind == _QUOTAS and (chosen.node or chosen.selector):
        chosen.parser.error("quotas are of namespaces: they take neither --node nor --selector")
    if chosen.kind != "pods" and chosen.state:
        chosen.parser.error("--state is of pods")
    if chosen.watch and chosen.snapshot is not None:
        chosen.parser.error("argument -w/--watch: not allowed with argument --snapshot")


def _list(chosen: argparse.Namespace, keys: Keys, snapshot: Snapshot) -> Listing:
    filters = Filters(
        namespace=chosen.namespace,
        node=chosen.node,
        pool=chosen.pool,
        model=chosen.model,
        selector=chosen.selector,
        states=frozenset(chosen.state),
    )
    if chosen.kind != _QUOTAS:  # a broken quota keeps nobody from the pods and the cards
        snapshot = replace(snapshot, quota=None)
    cluster = clusters.read_what_can_be(keys, snapshot)
    if filters.node and filters.node not in cluster.nodes and not chosen.watch:
        raise SourceError(f"{snapshot.origin}: no node {filters.node!r}; see gpustack get nodes")
    question = Question(keys=keys, snapshot=snapshot, cluster=cluster, filters=filters)
    return _KINDS[chosen.kind](question)


def _watch(chosen: argparse.Namespace) -> int:
    """Print the list, and then its changes until the user ends it.

    The first answer is read as without -w, so that a refusal ends the command at once.
    """
    keys, first = Keys(chosen.domain), options.read(chosen)
    clusters.tell_unread(keys, first)
    context, headers = source.find(chosen), not chosen.no_headers
    quota = first.names.quota if chosen.kind == _QUOTAS else None
    follower = ClusterFollower(KubeClient.of_context(context), quota)
    found = _list(chosen, keys, first)
    known = {item.key: item for item in found.items}
    everything = [(output.ADDED, item) for item in found.items]
    output.show_changes(found, everything, chosen.output, headers=headers)
    told = ""
    for value in follower.lists():
        try:
            found = _list(chosen, keys, options.parse(chosen, context, value))
        except SourceError as error:  # a broken quota: the next edit may mend it
            if str(error) != told:
                printing.tell(error)
            told = str(error)
            continue
        told = ""
        now = {item.key: item for item in found.items}
        changes = list(output.changes_between(known, now))
        if changes:
            output.show_changes(found, changes, chosen.output, headers=False)
        known = now
    return 0
