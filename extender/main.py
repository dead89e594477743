"""The command `gpustack-extender`."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import gpustack
from extender import settings
from extender.application import ExtenderApplication
from extender.extender import Extender
from extender.extender_base import ExtenderBase
from extender.http.gunicorn_server import GunicornServer
from extender.offline import OfflineExtender
from extender.settings import ExtenderSettings
from gpustack.adapters import kube
from gpustack.adapters.systemd import Notifier, set_up_log, watchdog_seconds
from gpustack.adapters.web import remote_metrics
from gpustack.adapters.web.listener import Listener
from gpustack.adapters.web.tls import TlsError
from gpustack.command_line import Parser
from gpustack.wire.config import ConfigError
from gpustack.wire.files.source import SourceError

logger = logging.getLogger(__name__)

_DEFAULT_CONFIG: Final = Path("/etc/gpustack/extender.yml")
_EXIT_FAILED: Final = 1
_EXIT_USE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 failed, 2 wrong use."""
    parser = _parser()
    options = parser.parse_args(arguments)
    remote: Listener | None = None
    if options.listen is not None and options.snapshot is None:
        parser.error("--listen goes with --snapshot; otherwise set listen in the configuration")
    try:
        loaded, compose = _read(options)
        seconds, notifier = watchdog_seconds(), Notifier.from_environment()
        server = GunicornServer(
            loaded,
            lambda: ExtenderApplication(
                compose(loaded), loaded, notifier, watchdog_seconds=seconds, remote=remote
            ),
        )
        for each in (loaded.metrics, loaded.usage) if options.check_config else ():
            if each is not None:
                each.check()
    except (ConfigError, SourceError) as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_USE
    except TlsError as error:
        sys.stderr.write(f"{options.config or _DEFAULT_CONFIG}: {error}\n")
        return _EXIT_USE
    if options.check_config:
        return 0
    set_up_log(loaded.log_level, journal=True)
    if options.snapshot is None:
        try:
            # Here, not only in the worker: gunicorn would start workers over and over.
            remote = _remote(loaded)
        except (kube.KubeConfigError, OSError) as error:
            logger.error("%s", error)
            return _EXIT_FAILED
    elif loaded.metrics is not None:
        logger.warning("metrics.listen is not served with --snapshot: no cluster judges readers")
    server.run()
    return 0


def _remote(loaded: ExtenderSettings) -> Listener | None:
    """Listen for readers of metrics from other machines, where the configuration says so.

    Raises:
        KubeConfigError: the kubeconfig can't be used, which is for all that follows, too.
        OSError: the address is taken or not ours.
    """
    client = kube.KubeClient.from_kubeconfig(loaded.kubeconfig)
    if loaded.metrics is None:
        return None
    return loaded.metrics.listener(kube.TokenReviewer(client, remote_metrics.PATH).judge)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="gpustack-extender", description="Decides which GPUs a pod gets, for kube-scheduler."
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"default: {_DEFAULT_CONFIG}; with --snapshot: none",
    )
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="no cluster: answer filter, prioritize and every GET from what gpustack snapshot, or "
        "kubectl get nodes,pods,configmaps -A -o json, wrote; - is the standard input",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="with --snapshot: where to listen")
    parser.add_argument(
        "--check-config",
        action="store_true",
        help="check the configuration, the certificates that it names and the snapshot, and end",
    )
    parser.add_argument("--version", action="version", version=gpustack.__version__)
    return parser


def _read(
    options: argparse.Namespace,
) -> tuple[ExtenderSettings, Callable[[ExtenderSettings], ExtenderBase]]:
    """Return the settings, and what makes an extender of them.

    Raises:
        ConfigError, SourceError: a file can't be used.
    """
    if options.snapshot is None:
        return settings.load(options.config or _DEFAULT_CONFIG), Extender
    loaded = settings.load(options.config, options.listen)
    # Here, not in the worker: what is wrong with the file ends the command.
    served = OfflineExtender(loaded, options.snapshot)
    return loaded, lambda _settings: served


if __name__ == "__main__":
    sys.exit(main())
