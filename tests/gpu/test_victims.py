"""Honest tenants keep their shares, by whatever rule the driver counts what processes use.

Where that isn't known to be good, it is believed as far as all ledgers of a card leave room for it
(docs/decisions/0024-a-count-that-may-err.md). The rules: tests/simgpu/README.md.
"""

import functools
import pathlib
from collections.abc import Callable, Mapping

import pytest

from tests.gpu import bundle, victims
from tests.hook.container import SIMGPU, make

SECONDS = 3.0
DRAWN_SECONDS = 10.0  # sixty samples are a draw of ten: by what is counted, shares swing
POINTS = 3.0  # no design stands in which a victim loses more
KEPT = 0.97  # of what the program has without the hook
PART = 0.5  # of a share that is smaller than that
WINDOW_SECONDS = 2.0
WINDOW_POINTS = 8.0

SMALL = (("victim", 1, "short"), ("neighbour", 30, "bursts"))
COPYING = (("victim", 20, "copying"), ("without", 0, "copying"))
AVOIDED = (("victim", 60, "steady"), ("avoider", 20, "avoider"))

Had = Callable[..., Mapping[str, float]]

pytestmark = pytest.mark.clock


@pytest.fixture(scope="module")
def had(tmp_path_factory: pytest.TempPathFactory) -> Had:
    """Says what tenants had of a card whose driver counts by a rule, percent; each once."""
    make(SIMGPU, "all", "tests")
    bundle.gather()

    @functools.cache
    def run(
        rule: str, tenants: tuple[tuple[str, int, str], ...], seconds: float = SECONDS
    ) -> Mapping[str, float]:
        (figures,), _ = victims.had(tmp_path_factory.mktemp("machine"), rule, tenants, seconds)
        return figures

    return run


@pytest.mark.parametrize("rule", [*victims.GOOD_RULES, "samples", "samples-last"])
def test_a_share_of_one_percent_is_kept_beside_bursts(had: Had, rule: str) -> None:
    assert had(rule, SMALL)["victim"] >= PART * 1


@pytest.mark.parametrize("rule", ["samples", "samples-last"])
def test_the_neighbour_of_one_that_avoids_samples_keeps_its_share(had: Had, rule: str) -> None:
    assert had(rule, AVOIDED, DRAWN_SECONDS)["victim"] >= 60 - POINTS


def test_a_tenant_that_copies_is_held_back_for_its_kernels_only(had: Had) -> None:
    """200 us of kernel and 5 ms of copies, again and again: a fifth of the share that it has."""
    rounds = had("exact", COPYING)
    assert rounds["victim"] >= rounds["without"] * KEPT


@pytest.mark.parametrize("kernels", ["1 ms", "5 ms"])
def test_spans_of_two_seconds_are_near_the_shares(tmp_path: pathlib.Path, kernels: str) -> None:
    make(SIMGPU, "all", "tests")
    bundle.gather()
    tenants = (("smaller", 30, f"steady {kernels}"), ("larger", 70, f"steady {kernels}"))
    spans, events = victims.had(tmp_path, "exact", tenants, *[WINDOW_SECONDS] * 6)
    assert [each["smaller"] for each in spans] == pytest.approx([30] * 6, abs=WINDOW_POINTS)
    assert [each["larger"] for each in spans] == pytest.approx([70] * 6, abs=WINDOW_POINTS)
    assert events == []
