"""No decision is made twice and no pod forgotten, in any order of events."""

import logging
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings, stateful

from tests.extender.stateful.machine import Cluster

pytestmark = pytest.mark.long

# A search of hours is cut up: each part reports its end, and the parts share the cores.
PARTS = max(1, settings().max_examples // 2_500)


class _Errors(logging.Handler):
    """Errors that a thread would log before it goes on: here they fail the test.

    The test runs in one thread; records of other threads come from earlier tests.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.records.append(self.format(record))


@pytest.fixture
def errors() -> Iterator[list[str]]:
    handler = _Errors()
    logging.getLogger().addHandler(handler)
    logging.disable(logging.WARNING)
    yield handler.records
    logging.disable(logging.NOTSET)
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_order_of_events_gives_a_card_twice_or_forgets_a_pod(
    errors: list[str], part: int
) -> None:
    before, judged = Cluster.steps, Cluster.judged.copy()
    # A fifth more than the 10 000 steps need, so that rare steps are among them, too.
    examples = settings().max_examples * 6 // 5 // PARTS
    stateful.run_state_machine_as_test(
        Cluster, settings=settings(stateful_step_count=60, max_examples=examples)
    )
    print(f"part {part} of {PARTS}: {Cluster.steps - before} steps")
    assert not errors
    assert Cluster.steps - before >= 10_000
    # The judges aren't blind: decisions and preemptions were judged.
    judged = Cluster.judged - judged
    assert judged["decisions"] >= 1_000
    assert judged["preemptions"] >= 50
