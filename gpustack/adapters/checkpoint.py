"""The agent's records on disk: a file that grows by one line a change, and survives a crash.

The first line is the header; each other line changes one record, in order::

    CRC {"version": 2, "boot_id": ID, "records": N}
    CRC {"put": {"uid": UID, ...}}
    CRC {"remove": UID}

CRC is the CRC-32 of the line's JSON (as zlib's), in eight hexadecimal digits. A change counts once
fsync has returned. The file is made whole, under another name, with the N records of the moment
right behind the header: when the agent starts, when its changes have become longer than that, and
after a write has failed. So a crash can tear the last line alone, and that line never counted: it
is dropped, and the log says so. Anything else that is wrong is an error, never an empty state.

Version 1 was one document, written anew for each change:
``{"version": 1, "checksum": "sha256:...", "data": {"pods": [...]}}``, with the checksum over the
canonical JSON of `data`. It is read, and replaced at the agent's start.
"""

import contextlib
import json
import logging
import os
import pathlib
import shutil
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpustack.model.errors import GpustackError
from gpustack.wire.files import durable_file, regular_file

logger = logging.getLogger(__name__)

VERSION: Final = 2
_OLDEST_VERSION: Final = 1
# Changes up to this much are kept: a file of a few records isn't made anew all the time.
_LEAST_BYTES: Final = 64 << 10
_BOOT_ID: Final = pathlib.Path("/proc/sys/kernel/random/boot_id")  # random(4)


class CheckpointError(GpustackError):
    """The file can't be read or written, or was altered since it was written.

    Attributes:
        ending: of the name under which the file is kept when it can't be used.
    """

    ending = "broken"


class CheckpointVersionError(CheckpointError):
    """Another version of the agent has written the file."""

    def __init__(self, path: pathlib.Path, version: int) -> None:
        super().__init__(
            f"{path}: checkpoint of version {version}; this agent reads {_OLDEST_VERSION} to"
            f" {VERSION}"
        )
        self.ending = f"version-{version}"


class CheckpointFile:
    """Records by their `uid`, at a path. One writer, one call at a time.

    Args:
        path: the file; it is made by `renew` or the first change.
        boot_id: names this boot of the host, and goes into the header.

    Attributes:
        rebooted: whether the host has started again since the file was made; None where that isn't
            known. Set by `read`.
        refused: why the disk refused the last change; empty when it took it.
    """

    def __init__(self, path: pathlib.Path, *, boot_id: str | None = None) -> None:
        self.path = path
        self.rebooted: bool | None = None
        self.refused = ""
        self._boot_id = boot_id if boot_id is not None else _BOOT_ID.read_text().strip()
        self._lines: dict[str, bytes] = {}  # by UID: the line that puts the record
        self._made_bytes = 0  # length of the file when it was last made
        self._size_bytes = -1  # length now; negative: it has to be made

    def read(self) -> dict[str, Any]:
        """Return the records by UID, in the order of their first change.

        Raises:
            CheckpointVersionError: another version of the agent wrote the file.
            CheckpointError: unreadable or altered.
        """
        self.rebooted = None
        try:
            content = regular_file.read(self.path)
        except FileNotFoundError:
            content = None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.path}: {error}") from error
        try:
            records = {} if content is None else self._decode(content)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{self.path}: not the agent's records: {error!r}") from error
        self._lines = {uid: _line({"put": record}) for uid, record in records.items()}
        self._size_bytes = -1
        return records

    def renew(self) -> None:
        """Make the file anew with the records that stand; it then survives a power cut.

        Raises:
            CheckpointError: the disk refused; the old file is still there.
        """
        self._write(b"", self._lines)

    def put(self, record: Mapping[str, Any]) -> None:
        """Add or replace the record of `record["uid"]`; when this returns, it survives a power cut.

        Raises:
            CheckpointError: the disk refused; the old records stand.
        """
        line = _line({"put": record})
        self._write(line, {**self._lines, record["uid"]: line})

    def hold(self, record: Mapping[str, Any]) -> None:
        """Add a record, which the next change writes where the disk refuses it now (`refused`)."""
        self._lines = {**self._lines, record["uid"]: _line({"put": record})}
        self._size_bytes = -1
        with contextlib.suppress(CheckpointError):
            self.renew()

    def remove(self, uid: str) -> None:
        """Remove a record, likewise; one that isn't there is no change.

        Raises:
            CheckpointError: as `put`.
        """
        if uid in self._lines:
            left = {key: line for key, line in self._lines.items() if key != uid}
            self._write(_line({"remove": uid}), left)

    @property
    def problem(self) -> str:
        """Why no change can be written, as the last one or the disk shows; empty while none is."""
        size_bytes = sum(map(len, self._lines.values())) + _LEAST_BYTES
        return self.refused or durable_file.obstacle(self.path.parent, size_bytes)

    def set_aside(self, ending: str) -> pathlib.Path:
        """Move the file, or a folder in its place, out of the way; return its new path.

        A file that was moved there before is removed.

        Raises:
            CheckpointError: the disk refused.
        """
        aside = self.path.with_name(f"{self.path.name}.{ending}")
        try:
            if aside.is_dir() and not aside.is_symlink():
                shutil.rmtree(aside)
            else:
                aside.unlink(missing_ok=True)
            self.path.replace(aside)
        except OSError as error:
            why = durable_file.refusal(self.path, error)
            raise CheckpointError(f"can't be moved away, nor used: {why}") from error
        return aside

    def _decode(self, content: bytes) -> dict[str, Any]:
        if content.startswith(b"{"):
            return self._decode_document(content)
        *lines, rest = content.split(b"\n")
        changes = [_change(line) for line in lines]
        if not changes or changes[0] is None:
            raise ValueError("the first line is no header")
        header = changes[0]
        self._check_version(header)
        if rest or (len(changes) > 1 and changes[-1] is None):
            self._report_torn(rest or lines[-1])
            changes = changes if rest else changes[:-1]
        if len(changes) - 1 < header["records"]:
            raise ValueError(f"the file was made with {header['records']} records and lacks some")
        self.rebooted = header["boot_id"] != self._boot_id
        records: dict[str, Any] = {}
        for number, change in enumerate(changes[1:], start=2):
            if change is None:
                raise ValueError(f"line {number} is broken, and more lines follow")
            _apply(change, records)
        return records

    def _decode_document(self, content: bytes) -> dict[str, Any]:
        document = json.loads(content)
        self._check_version(document)
        data = document["data"]
        if document["checksum"] != durable_file.checksum(data):
            raise ValueError("the checksum does not match")
        return {pod["uid"]: pod for pod in data["pods"]}

    def _check_version(self, header: Mapping[str, Any]) -> None:
        version = header["version"]
        if not isinstance(version, int) or not 0 < version < 1 << 31:
            raise ValueError(f"version is {version!r}")
        if not _OLDEST_VERSION <= version <= VERSION:
            raise CheckpointVersionError(self.path, version)

    def _report_torn(self, line: bytes) -> None:
        logger.warning(
            "the last change of the records was torn by a crash, before it counted: dropped"
            " path=%s bytes=%d",
            self.path,
            len(line),
        )

    def _write(self, line: bytes, lines: dict[str, bytes]) -> None:
        try:
            if not self._append(line):
                self._replace(lines.values())
        except OSError as error:
            self._size_bytes = -1
            self.refused = durable_file.refusal(self.path, error)
            raise CheckpointError(self.refused) from error
        self.refused = ""
        self._lines = lines

    def _append(self, line: bytes) -> bool:
        """Add a line to the file; return False where the file has to be made anew."""
        changed_bytes = self._size_bytes + len(line) - self._made_bytes
        if not line or self._size_bytes < 0 or changed_bytes > max(_LEAST_BYTES, self._made_bytes):
            return False
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            return False  # an operator's doing
        try:
            if os.fstat(descriptor).st_size != self._size_bytes:
                return False
            self._append_to(descriptor, line)
        finally:
            os.close(descriptor)
        self._size_bytes += len(line)
        return True

    def _append_to(self, descriptor: int, line: bytes) -> None:
        try:
            durable_file.write_all(descriptor, line)
            os.fsync(descriptor)
        except OSError:
            # Its caller is told that it doesn't count. Where this fails too, the next change makes
            # the file anew all the same; an agent that ends before may come to know the line.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._size_bytes)
            raise

    def _replace(self, lines: Iterable[bytes]) -> None:
        body = tuple(lines)
        header = {"version": VERSION, "boot_id": self._boot_id, "records": len(body)}
        content = b"".join((_line(header), *body))
        durable_file.replace(self.path, content)
        self._made_bytes = self._size_bytes = len(content)


def _line(change: Mapping[str, Any]) -> bytes:
    text = json.dumps(change).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _change(line: bytes) -> Any:
    """Return a line's JSON, None where its CRC doesn't fit."""
    crc, _, text = line.partition(b" ")
    if crc != b"%08x" % zlib.crc32(text):
        return None
    return json.loads(text)


def _apply(change: Mapping[str, Any], records: dict[str, Any]) -> None:
    if "put" in change:
        records[change["put"]["uid"]] = change["put"]
    else:
        del records[change["remove"]]
