"""``gpustack replay``: a trace of arrivals and departures under several policies, side by side."""

import argparse
import sys
from collections.abc import Callable, Iterable

from gpustack.cli import clusters, inputs, options, printing, replay_views
from gpustack.cli.replay_views import Played
from gpustack.model import replay
from gpustack.model.device import Node
from gpustack.model.fragmentation import workload_of
from gpustack.model.policies import NAMES, named
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire.annotations import Keys
from gpustack.wire.trace import shuffled

_DEFAULT_POINTS = 12


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("replay", help="a trace of pods under several policies")
    parser.add_argument(
        "--trace", metavar="CSV", required=True, help="arrival,duration,cores,memory,count"
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
        type=inputs.positive,
        metavar="N",
        default=_DEFAULT_POINTS,
        help="how many moments to print, evenly spaced; default: %(default)s",
    )
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the cluster over time under each policy; 1 when a pod waits to the end in any."""
    nodes = tuple(clusters.read(Keys(chosen.domain), options.read(chosen)).nodes.values())
    arrivals = inputs.trace(chosen.trace, nodes)
    if chosen.seed is not None:
        arrivals = shuffled(arrivals, chosen.seed)
    played = play(nodes, arrivals, chosen.policies, _progress)
    printing.show_all(
        chosen.output,
        replay_views.tables(played, chosen.points),
        replay_views.as_json(played, chosen.points),
    )
    return 1 if any(each.unplaced for each in played.runs.values()) else 0


Progress = Callable[[str], replay.Progress | None]


def play(
    nodes: tuple[Node, ...],
    arrivals: Iterable[replay.Arrival],
    policies: Iterable[str],
    progress: Progress = lambda _: None,
) -> Played:
    """Play a trace under each policy, all measured by the trace's own workload."""
    trace = tuple(arrivals)
    workload = workload_of((each.request, each.count) for each in trace)
    runs = {
        name: replay.run(nodes, trace, named(name, workload), workload, progress(name))
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


def _progress(policy: str) -> replay.Progress | None:
    """Return what tells a person that something happens; programs and files aren't told."""
    if not sys.stderr.isatty():
        return None
    told = -1

    def tell(arrived: int, total: int) -> None:
        nonlocal told
        percent = 100 * arrived // total
        if percent != told:
            told = percent
            end = "\n" if arrived == total else ""
            sys.stderr.write(f"\r{policy}: {percent} % of {total} pods{end}")
            sys.stderr.flush()

    return tell
