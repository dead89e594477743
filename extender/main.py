"""The command `gpustack-extender`."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import gpustack
from extender import server, settings
from gpustack.adapters import kube
from gpustack.wire.config import ConfigError

logger = logging.getLogger(__name__)

_DEFAULT_CONFIG: Final = Path("/etc/gpustack/extender.yml")
_EXIT_FAILED: Final = 1
_EXIT_USE: Final = 2
# journald reads `<N>` at a line's beginning as its priority (sd-daemon(3)).
_PRIORITIES: Final = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class _Formatter(logging.Formatter):
    """Lines as journald wants them; it adds the time itself."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\n", "\n  ")
        return f"<{_PRIORITIES.get(record.levelname, 6)}>{text}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 failed, 2 wrong use."""
    parser = argparse.ArgumentParser(
        prog="gpustack-extender", description="Decides which GPUs a pod gets, for kube-scheduler."
    )
    parser.add_argument("--config", type=Path, default=_DEFAULT_CONFIG, metavar="FILE")
    parser.add_argument("--check-config", action="store_true", help="check FILE and end")
    parser.add_argument("--version", action="version", version=gpustack.__version__)
    options = parser.parse_args(arguments)
    try:
        loaded = settings.load(options.config)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_USE
    if options.check_config:
        return 0
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(name)s: %(message)s"))
    logging.basicConfig(level=loaded.log_level, handlers=[handler])
    try:
        # Here, not only in the worker: gunicorn would start workers over and over.
        kube.KubeClient.from_kubeconfig(loaded.kubeconfig)
    except kube.KubeConfigError as error:
        logger.error("%s", error)
        return _EXIT_FAILED
    server.Server(loaded).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
