"""``gpustack graph``: the cards of this host and what is taken of each, as its agent sees them.

The text is that of the original's `/graph`, by `display.GPUDisplay` on the
agent's socket.
"""

import argparse
import pathlib
from typing import Final

from gpustack.model.errors import GpustackError

_SOCKET: Final = pathlib.Path("/run/gpustack/agent.sock")


class GraphError(GpustackError):
    """The agent can't be asked with this installation."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("graph", help="this host's cards and what is taken of each")
    parser.add_argument(
        "--socket",
        type=pathlib.Path,
        default=_SOCKET,
        metavar="PATH",
        help=f"the agent's (default: {_SOCKET})",
    )
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the tree.

    Raises:
        GraphError: gRPC isn't installed.
        AgentUnavailable: the agent doesn't answer.
    """
    # Here, so that the other commands work where gRPC isn't installed.
    try:
        from gpustack.adapters.display import DisplayClient  # noqa: PLC0415
    except ImportError as error:
        raise GraphError(
            "the agent is asked with the Python packages grpcio and protobuf, which are not"
            " installed: use /opt/gpustack/venv/bin/gpustack on a GPU host"
        ) from error
    print(DisplayClient(chosen.socket).graph(), end="")
    return 0
