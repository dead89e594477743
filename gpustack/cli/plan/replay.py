"""``gpustack replay``: a trace of arrivals and departures under several policies, side by side."""

import argparse
from collections.abc import Callable, Iterable
from typing import Final

from gpustack.cli import clusters, options
from gpustack.cli.output import printing, replay_table
from gpustack.cli.output.replay_table import Played
from gpustack.cli.plan import inputs
from gpustack.model.cluster import replay
from gpustack.model.cluster.eligibility import OPEN, out_of_service
from gpustack.model.cluster.simulator import Progress
from gpustack.model.node import Node
from gpustack.model.policies import NAMES, named
from gpustack.model.policies.fragmentation import workload_of
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire.files.trace import shuffled
from gpustack.wire.keys import Keys

_DEFAULT_POINTS: Final = 12
_MORE: Final = """\
Plays arrivals and departures on the nodes of the snapshot beside the pods that hold cards there,
under one policy after another. Pods that don't fit wait. Nodes that are cordoned or not ready play
no part; other taints, and quotas, aren't looked at, for a trace says nothing of either.

ALLOC: part of the compute of all cards that is allocated; FRAG: part of the free compute that can't
serve what the trace asks (FGD's measure); WAIT: pods that wait."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "replay",
        help="a trace of pods under several policies",
        description=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--trace",
        metavar="CSV",
        required=True,
        help="arrival,duration,cores,memory,count, or the columns of Alibaba's gpu-v2023 pod "
        "lists; - is the standard input",
    )
    parser.add_argument(
        "--policies",
        metavar="A,B",
        type=_policies,
        default=NAMES,
        help=f"of {','.join(NAMES)}; default: all",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="draw the order of pods that arrive at one moment"
    )
    parser.add_argument(
        "--points",
        type=options.positive,
        metavar="N",
        default=_DEFAULT_POINTS,
        help="how many moments to print, evenly spaced; default: %(default)s",
    )
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the cluster over time under each policy; 1 when a pod waits to the end in any."""
    options.check_one_pipe(chosen.parser, snapshot=chosen.snapshot, trace=chosen.trace)
    cluster = clusters.read(Keys(chosen.domain), options.read(chosen))
    nodes = tuple(
        node
        for name, node in cluster.nodes.items()
        if not out_of_service(cluster.hosts.get(name, OPEN))
    )
    arrivals = inputs.trace(chosen.trace, nodes)
    if chosen.seed is not None:
        arrivals = shuffled(arrivals, chosen.seed)
    played = play(nodes, arrivals, chosen.policies, printing.progress)
    printing.show_all(
        chosen.output,
        replay_table.tables(played, chosen.points),
        replay_table.as_json(played, chosen.points),
    )
    return 1 if any(each.unplaced for each in played.runs.values()) else 0


Tellers = Callable[[str], Progress | None]


def play(
    nodes: tuple[Node, ...],
    arrivals: Iterable[replay.Arrival],
    policies: Iterable[str],
    tellers: Tellers = lambda _: None,
) -> Played:
    """Play a trace under each policy, all measured by the trace's own workload."""
    trace = tuple(arrivals)
    workload = workload_of((each.request, each.count) for each in trace)
    runs = {
        name: replay.run(nodes, trace, named(name, workload), workload, tellers(name))
        for name in policies
    }
    arrived = {each.at for each in trace}
    departed = (run.moments[-1].at for run in runs.values())
    healthy = [card for node in nodes for card in node.cards if card.healthy]
    return Played(
        cores=CORES_PER_CARD * len(healthy),
        memory_units=sum(card.memory_units for card in healthy),
        workload=workload,
        runs=runs,
        end=max(arrived) if len(arrived) > 1 else max(departed),
    )


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in NAMES]
    if unknown or len(set(names)) != len(names):
        allowed = ",".join(NAMES)
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different ones of {allowed}")
    return names
