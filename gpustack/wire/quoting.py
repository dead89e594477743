"""Users' texts quoted in messages: cut, so that a hostile text fills neither a log nor an Event."""

from typing import Final

_LONGEST: Final = 64  # characters; a name of Kubernetes has at most 63 in its longest part


def quoted(value: object) -> str:
    """Return a value as Python writes it; of a long text its beginning and its length."""
    if not isinstance(value, str):
        return quoted(str(value)) if len(repr(value)) > _LONGEST else repr(value)
    if len(value) <= _LONGEST:
        return repr(value)
    return f"{value[:_LONGEST]!r}... ({len(value)} characters)"
