"""``gpustack top``: what is used now, against what is guaranteed; by node, card, pod, namespace.

The JSON follows the schema `top.json` beside the other schemas.
"""

import argparse
import datetime
import os
import shutil
import sys
import threading
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gpustack.cli import options
from gpustack.cli.output import printing
from gpustack.cli.top import usage_tables
from gpustack.cli.top.node_use import AgentUsageError, MeasuredNode
from gpustack.cli.top.usage_tables import KINDS, UsageList
from gpustack.model.errors import GpustackError

_AGENT: Final = "http://127.0.0.1:5678"
_REFRESH_SECONDS: Final = 2.0
_ASKED_AT_ONCE: Final = 16
_OTHER_LINES: Final = 4  # of the screen: when, an empty one, the heading, what is left out
_HOME: Final = "\x1b[H\x1b[J"  # the cursor to the first line, and everything below it away
_DESCRIPTION: Final = """\
Show what cards, or the pods and namespaces that hold them, use now: GPU time against the guarantee,
and memory against the limit, as this host's agent sees them. On a terminal it goes on; a pipe or
a file gets one answer."""
_EPILOG: Final = """\
An agent listens on its host alone. Those of other hosts are reached by a tunnel each:
  ssh -N -L 5679:127.0.0.1:5678 gpu2 & gpustack top --agent http://127.0.0.1:5679

exit status: 0, 1 where an agent does not answer, which stderr names"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "top",
        help="what cards, pods and namespaces use now, against what they are guaranteed",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", nargs="?", choices=tuple(KINDS), default="pods")
    parser.add_argument(
        "--agent",
        metavar="URL",
        type=_agent,
        action="append",
        help=f"an agent's address; may be given several times; default: {_AGENT}",
    )
    parser.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", default="", help="its pods; default: all"
    )
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=_seconds,
        default=_REFRESH_SECONDS,
        help="between two answers; default: %(default)g",
    )
    parser.add_argument(
        "--count",
        metavar="N",
        type=options.positive,
        help="so many answers; default: one, or on a terminal without end",
    )
    options.add_output(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print usage, once or again and again; 1 where an agent didn't answer the last time.

    Raises:
        GpustackError: no agent can be asked with this installation.
    """
    live = sys.stdout.isatty() and chosen.output == "table"
    if chosen.namespace and chosen.kind in {"nodes", "cards"}:
        chosen.parser.error("argument -n/--namespace: not allowed with nodes or cards")
    if chosen.output == "json" and chosen.count not in {None, 1}:
        chosen.parser.error("argument --count: not allowed with -o json, which is one answer")
    count = chosen.count or (None if live else 1)
    answers, status = 0, 0
    while count is None or answers < count:
        if answers:
            threading.Event().wait(chosen.interval)
        found, problems = read(list(dict.fromkeys(chosen.agent or [_AGENT])))
        if chosen.namespace:
            found = [usage_tables.of_namespace(each, chosen.namespace) for each in found]
        status = _show(chosen, KINDS[chosen.kind](found), problems, live=live)
        answers += 1
    return status


def read(agents: Sequence[str]) -> tuple[list[MeasuredNode], list[AgentUsageError]]:
    """Ask the agents; return the nodes, and what keeps the others from being there.

    Raises:
        GpustackError: this installation can't read metrics.
    """
    # Here, so that the other commands work where the package isn't installed.
    try:
        from gpustack.cli.top import agent_usage  # noqa: PLC0415
    except ImportError as error:
        raise GpustackError(
            "metrics are read with the Python package prometheus-client, which is not installed:"
            " use /opt/gpustack/venv/bin/gpustack on a GPU host"
        ) from error

    def ask(agent: str) -> MeasuredNode | AgentUsageError:
        try:
            return agent_usage.read(agent)
        except AgentUsageError as error:
            return error

    found: dict[str, MeasuredNode] = {}
    problems = []
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        for agent, each in zip(agents, pool.map(ask, agents), strict=True):
            if isinstance(each, AgentUsageError):
                problems.append(each)
            elif each.node in found:  # two names of one agent, or one that lies
                text = f"{agent}: another agent has said already that it is node {each.node}"
                problems.append(AgentUsageError(text))
            else:
                found[each.node] = each
    return list(found.values()), problems


def _show(
    chosen: argparse.Namespace,
    listed: UsageList,
    problems: Sequence[AgentUsageError],
    *,
    live: bool,
) -> int:
    """Print one answer; 1 where an agent is missing."""
    if chosen.output == "json":
        value = {
            chosen.kind: [dict(item) for item, _ in listed.items],
            "unread": [str(each) for each in problems],
        }
        printing.show("json", [], value)
    else:
        _show_table(chosen.kind, listed, room=_room(problems) if live else None)
    for each in problems:
        printing.tell(each)
    sys.stdout.flush()
    return 1 if problems else 0


def _show_table(kind: str, listed: UsageList, *, room: int | None) -> None:
    """Print the table; on a terminal in place of the one before, and as much as it has room for."""
    rows = [row for _, row in listed.items]
    if room is not None:
        if os.environ.get("TERM", "dumb") != "dumb":
            sys.stdout.write(_HOME)
        print(f"{datetime.datetime.now().astimezone():%H:%M:%S}  {len(rows)} {kind}\n")
    printing.show_tables([[listed.head, *rows[:room]]])
    if room is not None and len(rows) > room:
        print(f"and {len(rows) - room} more")


def _room(problems: Sequence[AgentUsageError]) -> int:
    """Return how many rows the terminal has room for."""
    lines = shutil.get_terminal_size().lines - _OTHER_LINES - len(problems)
    return max(1, lines)


def _agent(text: str) -> str:
    """Read an agent's address.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        parts = urllib.parse.urlsplit(text)
        usable = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.path.strip("/") or parts.query:
        raise argparse.ArgumentTypeError(f"{text!r} is not http://HOST:PORT")
    return text.rstrip("/")


def _seconds(text: str) -> float:
    """Read a time.

    Raises:
        argparse.ArgumentTypeError: it is too short or too long.
    """
    shortest, longest = 0.5, 3600
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not shortest <= found <= longest:
        raise argparse.ArgumentTypeError(f"{text!r} is not {shortest} to {longest} seconds")
    return found
