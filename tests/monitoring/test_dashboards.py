"""The dashboards of monitoring/dashboards are what the program makes, and read what there is."""

import re

import pytest

from tests.monitoring.dashboards import DASHBOARDS, FOLDER, Dashboard, text
from tests.monitoring.known import METRIC, known, plain


@pytest.mark.parametrize("made", DASHBOARDS, ids=lambda each: each.name)
def test_a_dashboard_is_what_the_program_makes(made: Dashboard) -> None:
    written = (FOLDER / f"{made.name}.json").read_text("utf-8")
    assert written == text(made), "run: python -m tests.monitoring.dashboards"


def test_there_is_no_other_dashboard() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {each.name for each in DASHBOARDS}


def test_every_metric_of_a_dashboard_is_in_the_reference_or_a_rule() -> None:
    lines = [line for made in DASHBOARDS for line in made.expressions()]
    assert {plain(name) for line in lines for name in METRIC.findall(line)} - known() == set()


def test_no_variable_is_left_in_an_expression() -> None:
    assert not [
        line for made in DASHBOARDS for line in made.expressions() if re.search(r"\$", line)
    ]
