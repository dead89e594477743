"""The program `gpustack-agent`: its options, its signals, its exit status."""

import argparse
import gc
import logging
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from gpustack import __version__
from gpustack.adapters.control import ControlClient, ControlRefusal, ControlUnavailable
from gpustack.adapters.systemd import DescriptorStore, Notifier, set_up_log
from gpustack.adapters.web.tls import TlsError
from gpustack.agent import settings
from gpustack.command_line import Parser
from gpustack.model.errors import GpustackError
from gpustack.wire.config import ConfigError
from gpustack.wire.files import durable_file

if TYPE_CHECKING:
    from gpustack.agent.app import Agent

logger = logging.getLogger(__name__)

_DEFAULT_CONFIG = pathlib.Path("/etc/gpustack/agent.yml")
_WRONG_USE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until SIGTERM or SIGINT.

    Returns:
        0 after a stop, 1 after a failure, 2 for a configuration that can't be used. With --reload:
        0 when the running agent has taken the configuration over, 1 when it refuses or is away.
    """
    options = _parser().parse_args(arguments)
    try:
        configuration = settings.load(options.config)
        if options.check_config and configuration.metrics is not None:
            configuration.metrics.check()
    except (ConfigError, TlsError) as error:
        print(error, file=sys.stderr)  # noqa: T201 (before logging is set up)
        return _WRONG_USE
    if options.check_config:
        return 0
    if options.reload:
        return _reload(configuration.control_socket)
    set_up_log(configuration.log_level, journal="JOURNAL_STREAM" in os.environ)
    try:
        agent = _agent(configuration)
    except (GpustackError, OSError) as error:
        logger.critical("does not start: %s", durable_file.explained(error))
        return _WRONG_USE if isinstance(error, ConfigError) else 1
    return _run(agent)


def _reload(socket: pathlib.Path) -> int:
    """Let the running agent take its configuration over; say what has changed, or why it can't."""
    try:
        changed = ControlClient(socket).reload()
    except (ControlRefusal, ControlUnavailable) as error:
        print(error, file=sys.stderr)  # noqa: T201 (the answer of a command)
        return 1
    print(f"reloaded: {', '.join(changed)}" if changed else "nothing has changed")  # noqa: T201
    return 0


def _agent(configuration: settings.AgentSettings) -> "Agent":
    # Here, because the questions of a run of site.yml need nothing of it, and it takes two thirds
    # of the time that this program takes to load.
    from gpustack.adapters.nvml import Nvml  # noqa: PLC0415
    from gpustack.agent.app import Agent  # noqa: PLC0415

    return Agent(configuration, nvml=Nvml(), store=DescriptorStore.from_environment())


def _run(agent: "Agent") -> int:
    def stop(number: int, _: FrameType | None) -> None:
        logger.info("stopping signal=%s", signal.Signals(number).name)
        agent.tasks.stop.set()

    def reload(_: int, __: FrameType | None) -> None:
        # Not in the handler: it may have interrupted a holder of a lock that this takes.
        threading.Thread(target=agent.configuration.on_signal, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, reload)
    try:
        agent.start()
        # Looking through all that is loaded for garbage would stop an Allocate for 45 ms, again and
        # again, and find nothing: it stays as long as the process.
        gc.freeze()
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
    parser.add_argument(
        "--reload",
        action="store_true",
        help="let the running agent take the configuration over, as far as it can, and end",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
