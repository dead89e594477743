"""Each target stands 10⁴ inputs in `make long`, always the same, and 10⁶ new ones in `nightly`.

`python -m tests.fuzz NAME` looks for more. What was found has a test beside those of its parser.
"""

import os
import pathlib
import random
import subprocess
import sys

import pytest

TARGETS = (
    "pod_annotations",
    "node_records",
    "node_violations",
    "extender_bodies",
    "quota_texts",
    "topology_texts",
    "cri_answers",
    "pod_resources_answers",
    "checkpoint_files",
)
RUNS = 10_000
NIGHTLY_RUNS = 1_000_000
RUNS_PLANTED = 400_000  # it needs half of them


def fuzz(name: str, runs: int, seed: int) -> subprocess.CompletedProcess[str]:
    """Run a target in a process of its own, whose imports are instrumented."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", name, f"-runs={runs}", f"-seed={seed}"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=pathlib.Path(__file__).parents[2],
        # The order of sets decides which inputs come; a seed has to bring the same ones.
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def passes(name: str, runs: int, seed: int) -> None:
    done = fuzz(name, runs, seed)
    assert done.returncode == 0, f"-seed={seed}: {done.stdout[-500:]}{done.stderr[-6000:]}"
    assert f"Done {runs} runs" in done.stderr, "it ended before"


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_the_rule_of_its_parser(name: str) -> None:
    passes(name, RUNS, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_of_a_million_breaks_the_rule_of_its_parser(name: str) -> None:
    passes(name, NIGHTLY_RUNS, random.SystemRandom().randrange(1, 1 << 31))


@pytest.mark.long
def test_a_planted_fault_is_found_letter_by_letter() -> None:
    done = fuzz("planted", RUNS_PLANTED, 1)
    assert done.returncode != 0
    assert "KeyError: 'planted'" in done.stdout + done.stderr
