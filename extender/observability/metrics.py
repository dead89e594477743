"""Prometheus metrics, in a registry of their own. Label values come from fixed lists only."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

import gpustack
from gpustack.adapters.web import exposition

# From the cost of one thin decision to the scheduler's time limit.
_BUCKETS: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 4, 8)

# From a pod that finds room at once to one that waits for a week.
_WAIT_BUCKETS: Final = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 10800, 43200, 86400, 604800)


class Metrics:
    """What `/metrics` shows.

    Attributes:
        readers_dropped: how many remote readers' connections were closed without an answer.
    """

    def __init__(self, cluster: Collector, *, reservations: Callable[[], int]) -> None:
        """Begin to count; ``cluster`` and ``reservations`` are read for each answer."""
        self.registry = CollectorRegistry()
        counter = functools.partial(Counter, registry=self.registry)
        gauge = functools.partial(Gauge, registry=self.registry)
        self.verb_seconds = Histogram(
            "gpustack_extender_verb_duration_seconds",
            "Time from a request's arrival to its answer, without the time that it is held back.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.pod_wait_seconds = Histogram(
            "gpustack_extender_pod_wait_seconds",
            "Time from a pod's creation until its cards were decided.",
            buckets=_WAIT_BUCKETS,
            registry=self.registry,
        )
        self._decisions = counter(
            "gpustack_extender_decisions_total",
            "Answers about pods, by outcome: Placed, Bound, NotOurs, or why not.",
            ["outcome"],
        )
        self._events_dropped = counter(
            "gpustack_extender_events_dropped_total", "Events that could not be written."
        )
        self._refused = counter(
            "gpustack_extender_connections_refused_total",
            "Connections that were closed before they became a request, by cause.",
            ["cause"],
        )
        self._watch_ages = gauge(
            "gpustack_extender_watch_age_seconds",
            "Time since the API server last told anything; NaN before the first list.",
            ["resource"],
        )
        version = "Always 1; the label is the version."
        gauge("gpustack_extender_build_info", version, ["version"]).labels(
            gpustack.__version__
        ).set(1)
        gauge(
            "gpustack_extender_reservations", "Pods that hold cards and aren't bound."
        ).set_function(reservations)
        self.registry.register(cluster)
        self.readers_dropped: Callable[[], int] = lambda: 0
        self.registry.register(_ReadersDropped(self))

    def show_watch_age(self, resource: str, age_seconds: Callable[[], float]) -> None:
        """Show how long ago a watch heard of the API server."""
        self._watch_ages.labels(resource).set_function(functools.partial(_finite, age_seconds))

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


class _ReadersDropped(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "gpustack_extender_readers_dropped",
            "Connections to metrics.listen that were closed before they had their answer.",
            value=self._metrics.readers_dropped(),
        )


def _finite(age: Callable[[], float]) -> float:
    seconds = age()
    return seconds if math.isfinite(seconds) else math.nan
