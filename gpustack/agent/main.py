"""The program `gpustack-agent`: its options, its signals, its exit status."""

import argparse
import logging
import os
import pathlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from gpustack import __version__
from gpustack.adapters.nvml import Nvml
from gpustack.adapters.systemd import Notifier, set_up_log
from gpustack.agent import settings
from gpustack.agent.app import Agent
from gpustack.command_line import Parser
from gpustack.model.errors import GpustackError
from gpustack.wire.config import ConfigError

logger = logging.getLogger(__name__)

_DEFAULT_CONFIG = pathlib.Path("/etc/gpustack/agent.yml")
_WRONG_USE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until SIGTERM or SIGINT.

    Returns:
        0 after a stop, 1 after a failure, 2 for a configuration that can't be used.
    """
    options = _parser().parse_args(arguments)
    try:
        configuration = settings.load(options.config)
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 (before logging is set up)
        return _WRONG_USE
    if options.check_config:
        return 0
    set_up_log(configuration.log_level, journal="JOURNAL_STREAM" in os.environ)
    try:
        agent = Agent(configuration, nvml=Nvml())
    except (GpustackError, OSError) as error:
        logger.critical("does not start: %s", error)
        return 1
    return _run(agent)


def _run(agent: Agent) -> int:
    def stop(number: int, _: FrameType | None) -> None:
        logger.info("stopping signal=%s", signal.Signals(number).name)
        agent.tasks.stop.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        agent.start()
        return agent.serve(Notifier.from_environment())
    finally:
        agent.close()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="gpustack-agent", description="GPU agent of one host")
    parser.add_argument(
        "--config",
        type=pathlib.Path,
        default=_DEFAULT_CONFIG,
        metavar="FILE",
        help=f"configuration (default: {_DEFAULT_CONFIG})",
    )
    parser.add_argument(
        "--check-config", action="store_true", help="check the configuration and end"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
