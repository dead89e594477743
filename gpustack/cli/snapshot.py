"""``gpustack snapshot``: write the file that the other commands read."""

import argparse
import json
import sys

from gpustack.cli import options, source
from gpustack.wire.files import snapshots


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("snapshot", help="write what the others read")
    source.add_options(parser)
    options.add_quota(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the cluster's nodes, pods and quota as one List."""
    names = snapshots.Names(quota=chosen.quota)
    json.dump(source.read_cluster(source.find(chosen), names), sys.stdout)
    print()
    return 0
