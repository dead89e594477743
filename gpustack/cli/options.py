"""Options that several commands share, and what they mean."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpustack.adapters.kube.kubeconfig import Context
from gpustack.cli import source
from gpustack.wire.files import snapshots
from gpustack.wire.files.source import title
from gpustack.wire.keys import DEFAULT_DOMAIN
from gpustack.wire.nodes import NodeLabels


def add_reading(parser: argparse.ArgumentParser, forms: Sequence[str] = ("table", "json")) -> None:
    """Add where to read from and how to print the answer."""
    source.add_options(parser)
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="read this instead of a cluster: what gpustack snapshot, or "
        "`kubectl get nodes,pods,configmaps -A -o json`, writes; - is the standard input",
    )
    parser.add_argument(
        "--domain",
        default=DEFAULT_DOMAIN,
        help="of resources and annotations; default: %(default)s",
    )
    add_quota(parser)
    for what, default in (
        ("model", snapshots.USUAL.labels.model),
        ("pool", snapshots.USUAL.labels.pool),
    ):
        parser.add_argument(
            f"--{what}-label",
            metavar="LABEL",
            default=default,
            help=f"of nodes, that names their {what}; default: %(default)s",
        )
    add_output(parser, forms)


def add_quota(parser: argparse.ArgumentParser) -> None:
    """Add where the quota stands."""
    parser.add_argument(
        "--quota",
        metavar="NAMESPACE/NAME",
        type=_quota,
        default="/".join(snapshots.USUAL.quota),
        help="the quota's ConfigMap; default: %(default)s",
    )


def positive(text: str) -> int:
    """Read a number of things on the command line.

    Raises:
        argparse.ArgumentTypeError: not a whole number from 1 to 999999.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999")
    return int(text)


def _quota(text: str) -> tuple[str, str]:
    """Read the name of a ConfigMap.

    Raises:
        argparse.ArgumentTypeError: not of two parts.
    """
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name


def add_output(parser: argparse.ArgumentParser, forms: Sequence[str] = ("table", "json")) -> None:
    """Add the form of the answer."""
    parser.add_argument(
        "-o",
        "--output",
        choices=forms,
        default="table",
        help="for people or for programs; default: %(default)s",
    )


def check_one_pipe(parser: argparse.ArgumentParser, **files: str | None) -> None:
    """End with status 2 where two of these options would read the same standard input."""
    names = [f"--{name}" for name, path in files.items() if path == "-"]
    if len(names) > 1:
        parser.error(f"only one of {' and '.join(names)} can be the standard input")


def names(chosen: argparse.Namespace) -> snapshots.Names:
    """Return the names that the options of ``add_reading`` give to quota and labels."""
    labels = NodeLabels(model=chosen.model_label, pool=chosen.pool_label)
    return snapshots.Names(quota=chosen.quota, labels=labels)


def read(chosen: argparse.Namespace) -> snapshots.Snapshot:
    """Return the snapshot that the options of ``add_reading`` name.

    Raises:
        GpustackError: the cluster or the file can't be read.
    """
    if chosen.snapshot is not None:
        for name, value in (("kubeconfig", chosen.kubeconfig), ("context", chosen.context)):
            if value is not None:
                chosen.parser.error(f"argument --{name}: not allowed with argument --snapshot")
        found = snapshots.read_file(chosen.snapshot)
        return snapshots.parse(title(chosen.snapshot), found, names(chosen))
    context = source.find(chosen)
    return parse(chosen, context, source.read_cluster(context, names(chosen)))


def parse(
    chosen: argparse.Namespace, context: Context, value: Mapping[str, Any]
) -> snapshots.Snapshot:
    """Return a cluster's List as a snapshot.

    Raises:
        SourceError: an item isn't shaped like an object of the API; names the place.
    """
    found = snapshots.parse(f"{context.origin} (context {context.name})", value, names(chosen))
    return replace(found, namespace=context.namespace or found.namespace)
