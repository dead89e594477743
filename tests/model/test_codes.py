"""Every code has its meaning; mypy refuses a refusal with a code that has none."""

import ast
import pathlib
import re
import typing
from collections.abc import Iterator

import pytest

from gpustack.agent.violations.reactions import FINDINGS
from gpustack.model import codes
from gpustack.model.refusal import Reason

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALIASES = (codes.AdmissionReason, codes.DecisionFailure, codes.EventReason)
WRITERS = ("pod_event(", "ObjectEvent(")  # what makes an Event
CODE = r"GPU[A-Z][a-z]+|(?:[A-Z][a-z]+){2,}"
OTHERS = {"ConfigMap"}  # a kind, no reason


def strings() -> Iterator[str]:
    """Yield the words in camel case of the modules that write Events."""
    for folder in ("gpustack/agent", "extender"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            if any(each in text for each in WRITERS):
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield node.value


@pytest.mark.parametrize("alias", ALIASES, ids=["admission", "decision", "event"])
def test_every_code_has_a_meaning(alias: object) -> None:
    assert [code for code in typing.get_args(alias) if code not in codes.MEANINGS] == []


def test_nothing_else_has_a_meaning() -> None:
    known = {code for alias in ALIASES for code in typing.get_args(alias)} | {*map(str, Reason)}
    assert set(codes.MEANINGS) == known


def test_every_reason_of_an_event_has_a_meaning() -> None:
    written = {each for each in strings() if re.fullmatch(CODE, each)} - OTHERS
    assert {"CardUnhealthy", "GPUBound", "QuotaUnreadable", "UserKeyIgnored"} <= written
    found = written | {each.reason for each in FINDINGS}
    assert {each for each in found if each not in codes.MEANINGS} == set()
