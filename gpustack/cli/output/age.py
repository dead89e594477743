"""Ages as people read them."""

import datetime


def age_text(created: str, now: datetime.datetime) -> str:
    """Return an age as kubectl writes it, in its largest unit; `-` where it isn't known."""
    try:
        seconds = (now - datetime.datetime.fromisoformat(created)).total_seconds()
    except (TypeError, ValueError):
        return "-"
    return seconds_text(seconds)


def seconds_text(seconds: float) -> str:
    """Return a duration in its largest unit: `3h`."""
    for name, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{name}"
    return f"{max(0, int(seconds))}s"
