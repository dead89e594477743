"""``gpustack card``: the states of this host's cards, by the agent; and taking one out of use.

The JSON follows the schema `card.json` beside the other schemas.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Final

from gpustack.cli import options
from gpustack.cli.output import printing
from gpustack.model.errors import GpustackError

_SOCKET: Final = pathlib.Path("/run/gpustack/agent.sock")
_HEAD: Final = ("CARD", "UUID", "MODEL", "STATE", "REASON", "SINCE", "TEXT")
_HEALTHY: Final = "healthy"


class CardError(GpustackError):
    """The agent can't be asked with this installation."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "card",
        help="the states of this host's cards",
        description="Ask the agent of this host, as root, for the states of its cards, keep a card"
        " out of use for new pods, or put it to use again. Pods that run on it keep it.",
    )
    parser.add_argument("deed", choices=("list", "quarantine", "release"))
    parser.add_argument("card", nargs="?", metavar="UUID|MINOR", help="of the card to change")
    parser.add_argument("--reason", metavar="TEXT", help="in words, for those who read the list")
    parser.add_argument(
        "--socket",
        metavar="PATH",
        type=pathlib.Path,
        default=_SOCKET,
        help="of the agent; default: %(default)s",
    )
    options.add_output(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the cards, or the one that was changed; 1 when the agent refuses.

    Raises:
        CardError: gRPC isn't installed.
        ControlUnavailable: the agent doesn't answer, or the caller isn't root.
    """
    if chosen.deed == "list" and (chosen.card is not None or chosen.reason is not None):
        chosen.parser.error("list takes neither a card nor --reason")
    if chosen.deed != "list" and chosen.card is None:
        chosen.parser.error(f"{chosen.deed} needs a card: UUID|MINOR")
    # Here, so that the other commands work where gRPC isn't installed, and don't wait for it.
    try:
        from gpustack.adapters.control import ControlClient, ControlRefusal  # noqa: PLC0415
    except ImportError as error:
        raise CardError(
            "the agent is asked with the Python packages grpcio and protobuf, which are not"
            " installed: use /opt/gpustack/venv/bin/gpustack on a GPU host"
        ) from error
    client = ControlClient(chosen.socket)
    try:
        if chosen.deed == "list":
            cards = client.cards()
        elif chosen.deed == "quarantine":
            cards = (client.quarantine(chosen.card, chosen.reason or ""),)
        else:
            cards = (client.release(chosen.card, chosen.reason or ""),)
    except ControlRefusal as refusal:
        printing.tell(refusal)
        return 1
    rows: list[Sequence[object]] = [_HEAD]
    for card in cards:
        state = card.state if card.state == _HEALTHY else printing.Alarm(card.state)
        reason, text = card.reason or "-", card.text or "-"
        rows.append((card.minor, card.uuid, card.model, state, reason, card.since, text))
    printing.show(chosen.output, rows, {"cards": [dataclasses.asdict(card) for card in cards]})
    return 0 if chosen.deed != "release" or cards[0].state == _HEALTHY else 1
