"""promtool takes the rules and the page's configuration, and each alert says what to do."""

import pathlib
import re

import pytest
import yaml

from tests.monitoring.known import METRIC, known, plain, rules
from tests.monitoring.tools import ROOT, RULES, promtool

PAGE = ROOT / "docs/monitoring.md"
TESTS = sorted((ROOT / "tests/monitoring/rules").glob("*.yml"))


def test_promtool_accepts_every_rule() -> None:
    status, said = promtool("check", "rules", *RULES)
    assert status == 0, said


def test_promtool_accepts_the_configuration_of_the_page(tmp_path: pathlib.Path) -> None:
    """Without its targets: Debian builds Prometheus without `kubernetes_sd_configs`."""
    [block] = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    configuration = yaml.safe_load(block)
    for job in configuration["scrape_configs"]:
        del job["kubernetes_sd_configs"]
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration), "utf-8")
    status, said = promtool("check", "config", "--syntax-only", path)  # its files are a cluster's
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
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


def test_every_metric_that_a_rule_reads_is_in_the_reference() -> None:
    read = {
        plain(name)
        for kind in ("alert", "record")
        for rule in rules(kind)
        for name in METRIC.findall(rule["expr"])
    }
    assert read - known() == set()


def test_every_alert_has_a_unit_test_that_sees_it_fire() -> None:
    fired = {
        check["alertname"]
        for path in TESTS
        for one in yaml.safe_load(path.read_text("utf-8"))["tests"]
        for check in one.get("alert_rule_test", ())
        if check["exp_alerts"]
    }
    assert fired == {rule["alert"] for rule in rules("alert")}
