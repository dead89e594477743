"""`pytest --profile NAME` chooses how many examples every property tries."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import profiles

pytestmark = pytest.mark.long

PROPERTY = "tests/model/test_node.py::test_memory_units_never_promise_more_bytes_than_a_card_has"
ROOT = pathlib.Path(__file__).parents[1]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", PROPERTY]
    # A build server's CI makes hypothesis load a profile of its own; ours comes after it.
    environment = {**os.environ, "CI": "true"}
    return subprocess.run(
        [*command, "--hypothesis-show-statistics", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
        timeout=60,
    )


@pytest.mark.parametrize(("options", "examples"), [((), 200), (("--profile", "dev"), 50)])
def test_the_profile_says_how_many_examples_are_tried(
    options: tuple[str, ...], examples: int
) -> None:
    assert f"max_examples={examples}" in run(*options).stdout


def test_a_profile_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(pytest.UsageError, match="'luck' is not a profile; choose one of ci, dev"):
        profiles.choose("luck")
    refused = run("--profile", "luck")
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "nightly" in refused.stderr


def test_the_build_profile_repeats_its_examples_and_nightly_does_not() -> None:
    ci, nightly = (profiles.of(name) for name in ("ci", "nightly"))
    assert (ci.derandomize, ci.database, ci.max_examples) == (True, None, 200)
    assert (nightly.derandomize, nightly.max_examples) == (False, 20_000)
