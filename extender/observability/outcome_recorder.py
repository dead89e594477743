"""The one place that counts a verb's outcome, logs it, keeps it and writes its Event."""

import logging
from collections.abc import Callable

from extender.cache.pods import PodState
from extender.observability.decision_log import DecisionLog
from extender.verbs.outcome import BOUND, FITS, PLACED, Outcome
from gpustack.wire.extender_v1 import PodName

logger = logging.getLogger(__name__)


class OutcomeRecorder:
    """Records what verbs have decided."""

    def __init__(
        self,
        *,
        count: Callable[[str], None],
        decisions: DecisionLog,
        write_event: Callable[[PodState, Outcome], None],
    ) -> None:
        """Compose.

        Args:
            count: counts a code in the metrics.
            decisions: keeps the last outcomes.
            write_event: writes the Event of an outcome that has one.
        """
        self._count = count
        self._decisions = decisions
        self._write_event = write_event

    def record(self, verb: str, outcome: Outcome, seconds: float) -> None:
        """Record an outcome of a verb; ``seconds``: from the request to its answer."""
        pod, code = outcome.pod, outcome.code
        if code and code != FITS:  # filter decides nothing yet
            self._count(code)
        if isinstance(pod, PodName):
            logger.warning("no answer verb=%s error=%s", verb, outcome.message)
            self._decisions.add(verb, outcome, seconds)
            return
        if code in (PLACED, BOUND):
            logger.info("%s pod=%s node=%s", code.lower(), pod.full_name, outcome.node)
        if code and pod.ours:
            self._decisions.add(verb, outcome, seconds)
            self._write_event(pod, outcome)
