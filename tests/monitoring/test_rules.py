"""The rules of monitoring/rules: promtool takes them, and each alert says what to do."""

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.monitoring.tools import ROOT, RULES, promtool

PAGE = ROOT / "docs/monitoring.md"
TESTS = sorted((ROOT / "tests/monitoring/rules").glob("*.yml"))
METRIC = re.compile(r"\bgpustack_\w+")
SUFFIXES = re.compile(r"_(bucket|count|sum)$")


def rules(kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rules of a kind, `alert` or `record`."""
    for path in RULES:
        for group in yaml.safe_load(path.read_text("utf-8"))["groups"]:
            yield from (rule for rule in group["rules"] if kind in rule)


def test_promtool_accepts_every_rule() -> None:
    status, said = promtool("check", "rules", *RULES)
    assert status == 0, said


@pytest.mark.parametrize("path", TESTS, ids=lambda each: each.stem)
def test_the_rules_pass_their_unit_tests(path: pathlib.Path) -> None:
    status, said = promtool("test", "rules", path)
    assert status == 0, said


def test_each_alert_has_its_section_of_the_runbook() -> None:
    headings = re.findall(r"^### (Gpustack\w+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    urls = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules("alert")}
    assert headings == list(urls)
    assert urls == {name: f"docs/monitoring.md#{name.lower()}" for name in headings}


def test_each_alert_says_how_grave_it_is_and_what_happened() -> None:
    for rule in rules("alert"):
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


def test_every_metric_that_a_rule_reads_is_in_the_reference() -> None:
    pages = (ROOT / "docs/reference/agent.md", ROOT / "docs/reference/extender.md")
    known = set(re.findall(r"^\| `(\w+)` \|", "".join(map(_text, pages)), re.MULTILINE))
    read = {
        SUFFIXES.sub("", name)
        for kind in ("alert", "record")
        for rule in rules(kind)
        for name in METRIC.findall(rule["expr"])
    }
    assert read - known - _recorded() == set()


def _recorded() -> set[str]:
    return {name for rule in rules("record") for name in METRIC.findall(rule["record"])}


def _text(path: pathlib.Path) -> str:
    return path.read_text("utf-8")
