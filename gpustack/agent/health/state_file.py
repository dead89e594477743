"""The states of cards on disk: `health.json` in the agent's state folder.

The file is replaced as a whole. One that can't be used is moved aside and named in the log: cards
that were quarantined before count as they are found. That of a newer agent is kept under the name
of its version.
"""

import json
import logging
import pathlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gpustack.agent.health.card_state import CardState
from gpustack.model.errors import GpustackError
from gpustack.wire.files import durable_file, regular_file

logger = logging.getLogger(__name__)

_VERSION: Final = 1
_MOST_BYTES: Final = 4 * 1024 * 1024  # 64 cards with full histories are 1 MB


class StateFileError(GpustackError):
    """The file can't be written, or what is in its place is no such file.

    Attributes:
        ending: of the name under which the file is kept when it can't be used.
    """

    ending = "broken"


class StateVersionError(StateFileError):
    """Another version of the agent has written the file."""

    def __init__(self, path: pathlib.Path, version: int) -> None:
        super().__init__(f"{path}: states of version {version}; this agent reads {_VERSION}")
        self.ending = f"version-{version}"


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    boot_id: str
    cards: tuple[CardState, ...]


class StateFile:
    """Reads once and writes at each change.

    Args:
        path: the file.
        boot_id: of this start of the host.
    """

    def __init__(self, path: pathlib.Path, *, boot_id: str) -> None:
        self.path = path
        self._boot_id = boot_id

    def read(self) -> tuple[CardState, ...]:
        """Return the cards as they were left; those of before a boot have had it.

        Raises:
            StateVersionError: another version of the agent wrote the file.
            StateFileError: the file can't be used.
        """
        try:
            content = regular_file.read(self.path)
            if len(content) > _MOST_BYTES:
                raise StateFileError(f"{self.path}: larger than {_MOST_BYTES} bytes")
            found = self._decode(json.loads(content))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
            raise StateFileError(f"{self.path}: {error}") from error
        if found.boot_id == self._boot_id:
            return found.cards
        return tuple(each.booted() for each in found.cards)

    def set_aside(self, ending: str) -> pathlib.Path:
        """Rename a file that can't be used; return its new path.

        A file that was moved there before is replaced.

        Raises:
            StateFileError: the disk refuses.
        """
        aside = self.path.with_name(f"{self.path.name}.{ending}")
        try:
            self.path.replace(aside)
        except OSError as error:
            why = durable_file.refusal(self.path, error)
            raise StateFileError(f"can't be moved away: {why}") from error
        return aside

    def write(self, cards: Iterable[CardState]) -> None:
        """Replace the file; after it returns, the new one survives a power cut.

        Raises:
            StateFileError: the disk refuses; the old one stands.
        """
        data = msgspec.to_builtins(_Content(boot_id=self._boot_id, cards=tuple(cards)))
        document = {"version": _VERSION, "checksum": durable_file.checksum(data), "data": data}
        try:
            durable_file.replace(self.path, json.dumps(document).encode())
        except OSError as error:
            raise StateFileError(durable_file.refusal(self.path, error)) from error

    def _decode(self, document: Any) -> _Content:
        version = document.get("version") if isinstance(document, dict) else None
        if not isinstance(version, int) or not 0 < version < 1 << 31:
            raise ValueError("is no document with a version")
        if version != _VERSION:
            raise StateVersionError(self.path, version)
        data = document.get("data")
        if document.get("checksum") != durable_file.checksum(data):
            raise ValueError("the checksum does not match")
        return msgspec.convert(data, _Content)
