"""``gpustack doctor``: what is wrong, why it matters and how to mend it.

The JSON follows the schema `doctor.json` beside the other schemas.
"""

import argparse
import os
import pathlib
from typing import Final

from gpustack.cli import options
from gpustack.cli.doctor import check, report
from gpustack.cli.doctor.cluster import reading as cluster_reading
from gpustack.cli.doctor.cluster.checks import CHECKS as CLUSTER_CHECKS
from gpustack.cli.doctor.host import reading as host_reading
from gpustack.cli.doctor.host.checks import CHECKS as HOST_CHECKS
from gpustack.cli.doctor.host.reading import AGENT_CONFIG
from gpustack.cli.output import printing

_OF_CLUSTERS: Final = ("kubeconfig", "context", "snapshot")
_OF_HOSTS: Final = ("agent_config", "scheduler_config")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "doctor",
        help="what is wrong, why it matters and how to mend it",
        description="Check a cluster: its API server, schedulers, policies, GPU nodes and pods."
        " With --host, as root, check this host: driver, agent, kubelet, hook, certificates and the"
        " scheduler's entry. Nothing is written.",
        epilog="exit status: 0 where no check failed, 1 where one did, 2 wrong use",
    )
    parser.add_argument("--host", action="store_true", help="check this host, not a cluster")
    parser.add_argument(
        "--agent-config",
        metavar="FILE",
        type=pathlib.Path,
        help=f"with --host: the agent's; default: {AGENT_CONFIG}",
    )
    parser.add_argument(
        "--scheduler-config",
        metavar="FILE",
        type=pathlib.Path,
        help="with --host: kube-scheduler's; default: where site.yml writes it",
    )
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print what the checks find; 1 where one failed.

    Raises:
        GpustackError: the kubeconfig or the file can't be used.
    """
    _check(chosen)
    if chosen.host:
        if os.geteuid() != 0:
            printing.tell("not run as root: some checks will fail only because of that; use sudo")
        found = check.run(HOST_CHECKS, host_reading.read(host_reading.paths(chosen)))
    else:
        found = check.run(CLUSTER_CHECKS, cluster_reading.read(chosen))
    return report.show(chosen.output, list(found))


def _check(chosen: argparse.Namespace) -> None:
    """End with status 2 where options mean nothing together."""
    others = _OF_CLUSTERS if chosen.host else _OF_HOSTS
    for name in others:
        if getattr(chosen, name) is not None:
            option = f"--{name.replace('_', '-')}"
            word = "not allowed with" if chosen.host else "needs"
            chosen.parser.error(f"argument {option}: {word} argument --host")
