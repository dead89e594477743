"""The rule follows from two trials; what fits none of the rules is unknown, and isn't good."""

import pytest

from tests.gpu.nvml.counting import Rule, Told, Window, rule_of

MS = 1_000_000
FIRST, SECOND = 11, 12


def told(
    busy_ms: list[dict[int, float]], had: dict[int, float], span_ms: int = 250, behind_ms: int = 5
) -> Told:
    """Return a trial by what each window names, in milliseconds."""
    return Told(
        windows=[
            Window(
                span_ns=span_ms * MS,
                behind_ns=behind_ms * MS,
                busy_ns={pid: int(ms * MS) for pid, ms in each.items()},
            )
            for each in busy_ms
        ],
        had_percent=had,
    )


HALVES = {FIRST: 50.0, SECOND: 50.0}
THIRD = {FIRST: 33.3}


def beside(span_ms: int = 250, behind_ms: int = 5, part: float = 0.5) -> Told:
    both = {FIRST: span_ms * part, SECOND: span_ms * (1 - part)}
    return told([both] * 20, HALVES, span_ms, behind_ms)


def resting(part: float, span_ms: int = 250) -> Told:
    return told([{FIRST: span_ms * part}] * 20, THIRD, span_ms)


DRAWN = told([{FIRST: 167}, {SECOND: 167}] * 10, HALVES, 167)


@pytest.mark.parametrize(
    ("both", "one", "rule"),
    [
        (beside(), resting(0.333), Rule.EXACT),
        (beside(behind_ms=210), resting(0.333), Rule.LATE),
        (beside(span_ms=1000), resting(0.333, 1000), Rule.SECONDS),
        (DRAWN, resting(0.333), Rule.SAMPLES_LAST),
        (DRAWN, resting(0.111), Rule.SAMPLES),
        (beside(part=0.6), resting(0.333), Rule.UNKNOWN),
        (beside(), resting(0.111), Rule.UNKNOWN),
        (told([], HALVES), told([], THIRD), Rule.UNKNOWN),
        (
            told([{FIRST: 125, SECOND: 125}, {FIRST: 250}, {SECOND: 250}] * 5, HALVES),
            resting(0.333),
            Rule.UNKNOWN,
        ),
    ],
)
def test_a_rule_is_known_by_two_trials(both: Told, one: Told, rule: Rule) -> None:
    assert rule_of(both, one) is rule


def test_only_a_count_of_what_each_process_used_is_good() -> None:
    good = {each.value for each in Rule if each.is_good}
    assert good == {"exact", "late", "seconds"}
