"""Prometheus metrics, in a registry of their own. Label values come from fixed lists only."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import Collector

import gpustack
from gpustack.adapters import exposition

# From the cost of one thin decision to the scheduler's time limit.
_BUCKETS: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 4, 8)


class Metrics:
    """What `/metrics` shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.verb_seconds = Histogram(
            "gpustack_extender_verb_duration_seconds",
            "Time from a request's arrival to its answer.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._decisions = Counter(
            "gpustack_extender_decisions_total",
            "Answers about pods, by outcome: Placed, Bound, NotOurs, or why not.",
            ["outcome"],
            registry=self.registry,
        )
        self._events_dropped = Counter(
            "gpustack_extender_events_dropped_total",
            "Events that could not be written.",
            registry=self.registry,
        )
        self._refused = Counter(
            "gpustack_extender_connections_refused_total",
            "Connections that were closed before they became a request, by cause.",
            ["cause"],
            registry=self.registry,
        )
        Gauge(
            "gpustack_extender_build_info",
            "Always 1; the label is the version.",
            ["version"],
            registry=self.registry,
        ).labels(gpustack.__version__).set(1)

    def observe(
        self,
        *,
        watch_age_seconds: Mapping[str, Callable[[], float]],
        reservations: Callable[[], int],
        cluster: Collector,
    ) -> None:
        """Add the gauges that are read when somebody asks."""
        ages = Gauge(
            "gpustack_extender_watch_age_seconds",
            "Time since the API server last told anything; NaN before the first list.",
            ["resource"],
            registry=self.registry,
        )
        for resource, age in watch_age_seconds.items():
            ages.labels(resource).set_function(functools.partial(_finite, age))
        Gauge(
            "gpustack_extender_reservations",
            "Pods that hold cards and aren't bound.",
            registry=self.registry,
        ).set_function(reservations)
        self.registry.register(cluster)

    def count(self, outcome: str) -> None:
        """Count an answer about a pod."""
        self._decisions.labels(outcome).inc()

    def drop_event(self) -> None:
        """Count an event that was not written."""
        self._events_dropped.inc()

    def refuse(self, cause: str) -> None:
        """Count a connection that was closed before it became a request."""
        self._refused.labels(cause).inc()

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return what Prometheus reads in a form that it accepts, and that form's content type."""
        return exposition.render(self.registry, accept)


def _finite(age: Callable[[], float]) -> float:
    seconds = age()
    return seconds if math.isfinite(seconds) else math.nan
