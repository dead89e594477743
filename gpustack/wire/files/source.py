"""Files that a person names on the command line; ``-`` is the standard input."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from gpustack.model.errors import GpustackError
from gpustack.wire.files import regular_file

_STDIN: Final = "-"
# A cluster of the largest size that Kubernetes knows (150 000 pods,
# https://kubernetes.io/docs/setup/best-practices/cluster-large/), of some 10 KB a pod.
_MOST_BYTES: Final = 1 << 31


class SourceError(GpustackError):
    """An input that can't be read; the message names the file, the place and what is wanted."""


def title(path: str) -> str:
    """Return how messages name a file."""
    return "standard input" if path == _STDIN else path


def text_of(path: str) -> str:
    """Return a file's text, without the byte order mark that some editors put before it.

    Raises:
        SourceError: it can't be read, or isn't UTF-8.
    """
    try:
        return bytes_of(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{title(path)}: is not UTF-8 text at byte {error.start}") from error


def bytes_of(path: str) -> bytes:
    """Return a file's content.

    Raises:
        SourceError: it can't be read.
    """
    try:
        if path == _STDIN:
            return regular_file.read_stream(sys.stdin.buffer, _MOST_BYTES)
        return regular_file.read_named(Path(path), max_bytes=_MOST_BYTES)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character, too
        problem = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"{title(path)}: {problem}") from error


def json_of(path: str) -> Any:
    """Return the JSON value of a file.

    Raises:
        SourceError: it can't be read, or isn't JSON; names line and column.
    """
    text = text_of(path)
    if not text.strip():
        raise SourceError(f"{title(path)}: is empty")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{title(path)}:{error.lineno}:{error.colno}"
        raise SourceError(f"{place}: is not JSON: {error.msg}") from error
    except ValueError as error:  # a number of thousands of digits
        raise SourceError(f"{title(path)}: is not JSON: {error}") from error
    except RecursionError as error:
        raise SourceError(f"{title(path)}: is nested too deeply") from error
