"""``gpustack doctor``: what is wrong, why it matters and how to mend it.

The JSON follows the schema `doctor.json` beside the other schemas.
"""

import argparse
import os
import pathlib
from collections.abc import Sequence
from typing import Final

from gpustack.cli import options
from gpustack.cli.doctor import check, report
from gpustack.cli.doctor.cluster import reading as cluster_reading
from gpustack.cli.doctor.cluster.checks import CHECKS as CLUSTER_CHECKS
from gpustack.cli.doctor.cluster.checks import TRIAL_CHECKS
from gpustack.cli.doctor.host import reading as host_reading
from gpustack.cli.doctor.host.checks import CHECKS as HOST_CHECKS
from gpustack.cli.doctor.host.reading import AGENT_CONFIG
from gpustack.cli.output import printing

_OF_PODS: Final = ("node", "namespace", "scheduler_name", "pod_seconds")
_OF_CLUSTERS: Final = ("kubeconfig", "context", "snapshot", "run_pods", *_OF_PODS)
_OF_HOSTS: Final = ("agent_config", "scheduler_config")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "doctor",
        help="what is wrong, why it matters and how to mend it",
        description="Check a cluster: its API server, schedulers, policies, GPU nodes and pods."
        " With --host, as root, check this host: driver, agent, kubelet, hook, certificates and the"
        " scheduler's entry. Nothing is written, unless --run-pods is given.",
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
    _add_pods(parser)
    return parser


def _add_pods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run-pods",
        metavar="IMAGE",
        help="on each GPU node with room, run a pod with a share and then one with a whole card,"
        " compare what nvidia-smi sees in them with what they were given, and remove them; any"
        " image with a C library does",
    )
    parser.add_argument(
        "--node",
        metavar="NAME",
        action="append",
        help="run them on this node alone; may be given several times",
    )
    parser.add_argument("--namespace", metavar="NAME", help="of these pods; default: default")
    parser.add_argument(
        "--scheduler-name", metavar="NAME", help="of these pods; default: the cluster's own"
    )
    parser.add_argument(
        "--pod-seconds",
        metavar="N",
        type=options.positive,
        help="how long the pods of one kind may take, with their image;"
        f" default: {cluster_reading.POD_SECONDS}",
    )


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
        checks = CLUSTER_CHECKS if chosen.run_pods is None else CLUSTER_CHECKS + TRIAL_CHECKS
        found = check.run(checks, cluster_reading.read(chosen))
    return report.show(chosen.output, list(found))


def _check(chosen: argparse.Namespace) -> None:
    """End with status 2 where options mean nothing together."""
    others = _OF_CLUSTERS if chosen.host else _OF_HOSTS
    word = "not allowed with" if chosen.host else "needs"
    _refuse(chosen, others, f"{word} argument --host")
    if chosen.snapshot is not None:
        _refuse(chosen, ("run_pods",), "not allowed with argument --snapshot")
    if chosen.run_pods is None:
        _refuse(chosen, _OF_PODS, "needs argument --run-pods")


def _refuse(chosen: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in names:
        if getattr(chosen, name) is not None:
            chosen.parser.error(f"argument --{name.replace('_', '-')}: {why}")
