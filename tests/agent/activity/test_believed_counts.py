"""What hooks are told of the driver's count, where it may give one's GPU time to another."""

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.agent.activity.gpu_time_accounts import GpuTimeAccounts
from gpustack.agent.activity.nvml_usage import ContainerSample
from gpustack.agent.activity.share_figures import ShareFigures
from gpustack.agent.activity.shares import Share
from gpustack.wire.mapped.activity import CardActivity
from gpustack.wire.mapped.ledger import CardUse, LedgerReading
from tests.agent.activity.activity import CARD, Stage
from tests.agent.activity.test_gpu_time_accounts import PERCENT_NS, SECOND_NS, Second

LOOKS = 80  # the sums are within a thousandth of what they come to
PERCENT = st.integers(0, 100)


@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("hook", ["measures", "older"])
def test_a_count_that_gives_ones_time_to_another_is_not_told(
    stage: Stage, hook: str, *, is_good: bool
) -> None:
    victim = stage.process(stage.share("victim", cores=60), memory_bytes=0)
    stage.process(stage.share("avoider", cores=20), memory_bytes=0)
    for name in ("victim", "avoider"):
        stage.write_ledger(name)
    second = Second(stage, collects=is_good)
    for number in range(1, 21):
        for name, percent in (("victim", 60), ("avoider", 20)):
            busy_ns = number * percent * PERCENT_NS
            measured_ns = busy_ns if hook == "measures" else 0
            stage.write_ledger(name, busy_ns=busy_ns, measured_ns=measured_ns)
        second.passes((victim, 80))
    told = [stage.card(name).busy_ns / (20 * PERCENT_NS) for name in ("victim", "avoider")]
    assert told == pytest.approx([80, 0] if is_good else [60, 20], abs=0.5)


def test_a_corrected_ledger_is_compared_by_what_was_measured(stage: Stage) -> None:
    """Else one that is taken for an eighth of its time would stay so: it says an eighth."""
    victim = stage.process(stage.share("victim", cores=60), memory_bytes=0)
    stage.process(stage.share("avoider", cores=20), memory_bytes=0)
    second = Second(stage, collects=False)
    for number in range(1, 21):
        for name, percent, factor in (("victim", 60, 1.3), ("avoider", 20, 0.125)):
            measured_ns = number * percent * PERCENT_NS
            stage.write_ledger(name, busy_ns=int(measured_ns * factor), measured_ns=measured_ns)
        second.passes((victim, 80))
    told = [stage.card(name).busy_ns / (20 * PERCENT_NS) for name in ("victim", "avoider")]
    assert told == pytest.approx([60, 20], abs=0.5)


@pytest.mark.parametrize(
    ("counted", "measured"),
    [
        pytest.param((40, 20), (10, 20), id="too little"),
        pytest.param((50, 50), (100, 100), id="each with the other's slices"),
        pytest.param((40, 20), (0, 0), id="by no hook"),
    ],
)
def test_a_count_that_explains_the_card_is_told(
    counted: tuple[int, int], measured: tuple[int, int]
) -> None:
    assert _told(counted, measured) == pytest.approx(counted, abs=0.1)


@given(st.lists(st.tuples(PERCENT, PERCENT), min_size=1, max_size=6))
def test_what_is_told_lies_between_count_and_claim(rates: list[tuple[int, int]]) -> None:
    counted, measured = zip(*rates, strict=True)
    rest = sum(counted) - sum(measured)
    for told, count, claim in zip(_told(counted, measured), counted, measured, strict=True):
        assert min(count, claim) - 0.1 <= told <= max(count, claim) + 0.1
        assert min(0, rest) - 0.1 <= told - claim <= max(0, rest) + 0.1


@given(st.integers(0, 2**64 - 1))
def test_no_claim_makes_anothers_time_count_more(claim_ns: int) -> None:
    """It may hide it, from the hook of that other alone."""
    honest, _ = _told((40, 0), (30, 0), claim_ns)
    assert honest <= 40.1


def _told(
    counted: tuple[int, ...], measured: tuple[int, ...], last_claim_ns: int = 0
) -> list[float]:
    """Return what the hooks of containers are told in the last of many looks, percent of a second.

    Args:
        counted: by the driver, in each second, percent.
        measured: by the containers' hooks.
        last_claim_ns: what the ledger of the last container says at the end instead, if not 0.
    """
    now_ns = 0
    accounts = GpuTimeAccounts(lambda: now_ns, is_good=False, collects=False)
    figures = ShareFigures()
    owners = [(f"uid-{number}", "main") for number in range(len(counted))]
    shares = [
        Share(
            owner=owner, namespace="default", pod="p", uuids=(CARD.uuid,),
            elastic=frozenset(), memory_bytes=0, folder=pathlib.Path("/"),
        )
        for owner in owners
    ]  # fmt: skip
    for owner in owners:
        accounts.begin(owner, CardActivity(uuid=CARD.uuid))
    seen = {
        CARD.uuid: {
            owner: ContainerSample(busy_ns=percent * PERCENT_NS)
            for owner, percent in zip(owners, counted, strict=True)
        }
    }
    told: list[list[int]] = []
    for number in range(1, LOOKS + 1):
        now_ns += SECOND_NS
        for owner, percent in zip(owners, measured, strict=True):
            said_ns = number * percent * PERCENT_NS
            if last_claim_ns and number == LOOKS and owner == owners[-1]:
                said_ns = last_claim_ns
            use = CardUse(uuid=CARD.uuid, busy_ns=said_ns, measured_ns=said_ns)
            figures.note(owner, LedgerReading(cards=(use,), slots=()))
        accounts.count(shares, seen, figures, lambda *_: 0)
        told.append([_busy_ns(accounts, owner) for owner in owners])
    return [(last - before) / PERCENT_NS for before, last in zip(*told[-2:], strict=True)]


def _busy_ns(accounts: GpuTimeAccounts, owner: tuple[str, str]) -> int:
    page = accounts.page(
        owner, CARD.uuid, tenants_wanting=0, burst_allowed=False, unaccounted_bytes=0
    )
    return page.busy_ns
