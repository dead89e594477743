"""``gpustack doctor``: what is wrong, why it matters and how to mend it.

The JSON follows the schema `doctor.json` beside the other schemas.
"""

import argparse

from gpustack.cli import options
from gpustack.cli.doctor import check, report
from gpustack.cli.doctor.cluster import reading as cluster_reading
from gpustack.cli.doctor.cluster.checks import CHECKS as CLUSTER_CHECKS


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "doctor",
        help="what is wrong, why it matters and how to mend it",
        description="Check a cluster: its API server, schedulers, policies, GPU nodes and pods."
        " Nothing is written.",
        epilog="exit status: 0 where no check failed, 1 where one did, 2 wrong use",
    )
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print what the checks find; 1 where one failed.

    Raises:
        GpustackError: the kubeconfig or the file can't be used.
    """
    facts = cluster_reading.read(chosen)
    return report.show(chosen.output, list(check.run(CLUSTER_CHECKS, facts)))
