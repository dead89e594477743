"""The composition root of the ``gpustack`` command.

Exit status: 0 yes, 1 no (with a reason), 2 wrong use or unreadable input. Errors go to stderr.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import gpustack
from gpustack.cli import explain, source, usage
from gpustack.model.errors import GpustackError
from gpustack.wire.annotations import DEFAULT_DOMAIN, Keys


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    top = argparse.ArgumentParser(prog="gpustack", description="Who uses which GPU, and why not.")
    top.add_argument("--version", action="version", version=f"gpustack {gpustack.__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--kubeconfig", help=f"default: $KUBECONFIG, {source.DEFAULT_KUBECONFIG}")
    reading = argparse.ArgumentParser(add_help=False, parents=[common])
    reading.add_argument("--snapshot", metavar="FILE", help="read this instead of a cluster")
    reading.add_argument("--domain", default=DEFAULT_DOMAIN, help="default: %(default)s")
    reading.add_argument("-o", "--output", choices=("table", "json"), default="table")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("usage", parents=[reading], help="every card and who holds it")
    explaining = commands.add_parser("explain", parents=[reading], help="why a pod waits, or where")
    explaining.add_argument("pod", metavar="[NAMESPACE/]POD")
    commands.add_parser("snapshot", parents=[common], help="write what the others read")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one question; return the exit status."""
    chosen = parser().parse_args(arguments)
    try:
        return _answer(chosen)
    except GpustackError as error:
        print(f"gpustack: {error}", file=sys.stderr)
        return 2


def _answer(chosen: argparse.Namespace) -> int:
    kubeconfig = source.kubeconfig_path(chosen.kubeconfig)
    if chosen.command == "snapshot":
        json.dump(source.read_cluster(kubeconfig), sys.stdout)
        return 0
    if chosen.snapshot is None:
        snapshot = source.parse(kubeconfig, source.read_cluster(kubeconfig))
    else:
        snapshot = source.parse(chosen.snapshot, source.read_file(chosen.snapshot))
    keys = Keys(chosen.domain)
    if chosen.command == "usage":
        cards = usage.measure(keys, snapshot)
        _print(chosen.output, usage.rows(cards), usage.as_json(cards))
        return 0
    answer = explain.explain(keys, snapshot, chosen.pod)
    _print(chosen.output, explain.rows(answer), explain.as_json(answer))
    return 0 if answer.fits else 1


def _print(output: str, rows: Sequence[Sequence[object]], value: dict[str, Any]) -> None:
    if output == "json":
        print(json.dumps(value, indent=2))
        return
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    for row in texts:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


if __name__ == "__main__":
    sys.exit(main())
