"""The rules in the repository, and the names of metrics that may be read."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from tests.monitoring.tools import ROOT, RULES

METRIC: Final = re.compile(r"\b[a-z_]*:?(?:gpustack|container_gpu)_\w+(?::\w+)*|gpustack:\w+:\w+")
_SUFFIX: Final = re.compile(r"_(bucket|count|sum)$")


def rules(kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rules of a kind, `alert` or `record`."""
    for path in RULES:
        for group in yaml.safe_load(path.read_text("utf-8"))["groups"]:
            yield from (rule for rule in group["rules"] if kind in rule)


def plain(name: str) -> str:
    """Return the metric's name as the reference has it."""
    return _SUFFIX.sub("", name)


def known() -> set[str]:
    """Return the metrics of the reference, and what rules record."""
    pages = (ROOT / "docs/reference" / name for name in ("agent.md", "extender.md"))
    listed = "".join(page.read_text("utf-8") for page in pages)
    named = re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE)
    return {*named, *(rule["record"] for rule in rules("record"))}
