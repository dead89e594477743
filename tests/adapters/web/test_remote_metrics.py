"""The section `metrics`, which both daemons' configurations have."""

import copy
from pathlib import Path
from typing import Any

import pytest

from gpustack.adapters.web import remote_metrics
from gpustack.wire import config, schemas

LEAST = "listen: '0.0.0.0:5679', certificate: /c, key: /k"


def _section(section: str) -> Any:
    text = f"metrics: {{{section}}}"
    return config.parse_config(text, schemas.load("extender"), Path("x"))["metrics"]


def test_both_daemons_have_the_same_section() -> None:
    sections = [
        copy.deepcopy(schemas.load(daemon)["properties"]["metrics"])
        for daemon in ("agent", "extender")
    ]
    for each in sections:
        del each["properties"]["listen"]["description"]  # it names the daemon's own port
    assert sections[0] == sections[1]


def test_nothing_is_served_to_other_machines_unless_it_is_configured() -> None:
    assert remote_metrics.read(None) == (None, [])


def test_by_default_tokens_count_and_no_certificate_is_asked_for() -> None:
    read, problems = remote_metrics.read(_section(LEAST))
    assert problems == []
    assert read is not None
    assert (read.host, read.port, read.tokens, read.tls.client_ca) == ("0.0.0.0", 5679, True, None)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (f"{LEAST}, tokens: false", "metrics: nobody may read; set client_ca, or tokens to true"),
        (LEAST.replace("5679", "70000"), "metrics.listen: '0.0.0.0:70000' has no such port"),
        (LEAST.replace("0.0.0.0", "1.2.3"), "metrics.listen: '1.2.3:5679' is not an IP address"),
    ],
)
def test_a_problem_names_the_field_and_the_cure(section: str, problem: str) -> None:
    (found,) = remote_metrics.read(_section(section))[1]
    assert found.startswith(problem)
