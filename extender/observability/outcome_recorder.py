"""The one place that counts a verb's outcome, logs it, keeps it and writes its Event."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from extender.cache.pods import PodState
from extender.observability.decision_log import DecisionLog
from extender.observability.usage_metrics import age_seconds
from extender.verbs.outcome import BOUND, FITS, PLACED, Outcome
from gpustack.wire.extender_v1 import PodName

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class OutcomeRecorder:
    """Records what verbs have decided.

    Attributes:
        count: counts a code in the metrics.
        waited: is told how many seconds old a pod was when its cards were decided.
        now_ns: Unix nanoseconds.
        write_event: writes the Event of an outcome that has one.
    """

    count: Callable[[str], None]
    decisions: DecisionLog
    waited: Callable[[float], None]
    now_ns: Callable[[], int]
    write_event: Callable[[PodState, Outcome], None]

    def record(self, verb: str, outcome: Outcome, seconds: float) -> None:
        """Record an outcome of a verb; ``seconds``: from the request to its answer."""
        pod, code = outcome.pod, outcome.code
        if code and code != FITS:  # filter decides nothing yet
            self.count(code)
        if isinstance(pod, PodName):
            logger.warning("no answer verb=%s error=%s", verb, outcome.message)
            self.decisions.add(verb, outcome, seconds)
            return
        if code in (PLACED, BOUND):
            logger.info("%s pod=%s node=%s", code.lower(), pod.full_name, outcome.node)
            if pod.created_ns:
                self.waited(age_seconds(pod, self.now_ns()))
        if code and pod.ours:
            self.decisions.add(verb, outcome, seconds)
            self.write_event(pod, outcome)
