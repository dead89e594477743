"""When a pod was made and refused: any text may stand where a time should."""

import datetime

import pytest

from gpustack.wire.kube import pod_history


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:59", "10000-01-01T00:00:00Z", "now", ""],
)
def test_a_time_beyond_the_calendar_is_unknown(text: str) -> None:
    assert pod_history.created_ns({"creationTimestamp": text}) == 0


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_calendars_first_and_last_time_are_read(text: str) -> None:
    seconds = pod_history.created_ns({"creationTimestamp": text}) // 10**9
    assert datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%m-%d") in text


def test_the_schedulers_words_end_before_its_search_for_victims() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 NoWholeCard. preemption: 0/1 nodes are available.",
        "lastTransitionTime": "1970-01-01T00:00:01Z",
    }
    words = "0/1 nodes are available: 1 NoWholeCard."
    assert pod_history.unschedulable({"conditions": [condition]}) == (words, 10**9)
