"""Options that several commands share, and what they mean."""

import argparse

from gpustack.cli import source
from gpustack.wire.annotations import DEFAULT_DOMAIN


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    """Add the cluster to ask."""
    parser.add_argument("--kubeconfig", help=f"default: $KUBECONFIG, {source.DEFAULT_KUBECONFIG}")


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add where to read from and how to print the answer."""
    add_kubeconfig(parser)
    parser.add_argument("--snapshot", metavar="FILE", help="read this instead of a cluster")
    parser.add_argument("--domain", default=DEFAULT_DOMAIN, help="default: %(default)s")
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the form of the answer."""
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")


def read(chosen: argparse.Namespace) -> source.Snapshot:
    """Return what the options of ``add_reading`` point to.

    Raises:
        GpustackError: the cluster or the file can't be read.
    """
    if chosen.snapshot is not None:
        return source.parse(chosen.snapshot, source.read_file(chosen.snapshot))
    kubeconfig = source.kubeconfig_path(chosen.kubeconfig)
    return source.parse(kubeconfig, source.read_cluster(kubeconfig))
