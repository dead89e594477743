"""Who made a pod, when, and what kube-scheduler said of it last."""

import datetime
from collections.abc import Mapping
from typing import Any, Final

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST_MESSAGE: Final = 4096  # characters; the scheduler's is some hundred, and grows with reasons
_PREEMPTION: Final = " preemption: "
_MOST_OWNER: Final = 253 + 1 + 63  # characters: the API's longest name, and kind


def without_preemption(message: str) -> str:
    """Return why the scheduler placed a pod nowhere, without the end of its search for victims.

    kube-scheduler appends that to each refusal; for a pod with cards it names no reason of ours.
    """
    return message.partition(_PREEMPTION)[0]


def unscheduled(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition that says why a pod isn't scheduled; empty where there is none."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            found: Mapping[str, Any] = condition
            return found
    return {}


def unschedulable(status: Mapping[str, Any]) -> tuple[str, int]:
    """Return the scheduler's last refusal and its time: Unix nanoseconds, 1 where unreadable."""
    condition = unscheduled(status)
    if condition.get("reason") != "Unschedulable":
        return "", 0
    message = without_preemption(condition.get("message") or "")[:_MOST_MESSAGE]
    return message, _time_ns(condition.get("lastTransitionTime"), 1)


def created_ns(metadata: Mapping[str, Any]) -> int:
    """Return when an object was created, Unix nanoseconds; 0 where that can't be read."""
    return _time_ns(metadata.get("creationTimestamp"), 0)


def owner(metadata: Mapping[str, Any]) -> str:
    """Return the kind and name of an object's controller; empty where it has none."""
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return f"{each.get('kind', '')}/{each.get('name', '')}"[:_MOST_OWNER]
    return ""


def _time_ns(text: str | None, unknown: int) -> int:
    """Read an RFC 3339 time; ``unknown`` where it can't be read."""
    try:
        when = datetime.datetime.fromisoformat(text or "")
        since = None if when.tzinfo is None else when.astimezone(datetime.UTC) - _EPOCH
    except (ValueError, TypeError, OverflowError):  # no time, or none of the calendar's in UTC
        return unknown
    return unknown if since is None else since // datetime.timedelta(microseconds=1) * 1000
