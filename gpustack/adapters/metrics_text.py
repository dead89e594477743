"""Reading metrics from Prometheus's text: what another program wrote may be anything."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from gpustack.model.errors import GpustackError


class MetricsTextError(GpustackError):
    """A text has no metrics that can be read."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: its labels, and a value that is no NaN, not infinite and not negative."""

    labels: Mapping[str, str]
    value: float


def samples(text: bytes, names: Collection[str]) -> Mapping[str, Sequence[Sample]]:
    """Return the samples of these names, each name with a list; others are passed over.

    Raises:
        MetricsTextError: the text is none of Prometheus's, or a value of them is impossible.
    """
    found: dict[str, list[Sample]] = {name: [] for name in names}
    try:
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                if sample.name in found:
                    value = float(sample.value)
                    if not math.isfinite(value) or value < 0:
                        raise MetricsTextError(f"{sample.name} has the value {value}")
                    found[sample.name].append(Sample(sample.labels, value))
    # The library has no error of its own: a line of no sense ends in that of a step of its parser.
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise MetricsTextError(f"the answer is no text of metrics: {error}") from error
    return found
