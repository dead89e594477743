"""One JSON document that survives a crash: written whole or not at all, and checked when read.

The file is `{"version": N, "checksum": "sha256:...", "data": ...}`; the checksum covers the
canonical JSON of `data`. A torn or edited file is an error, never an empty state.
"""

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

from gpustack.model.errors import GpustackError
from gpustack.wire.files import regular_file


class CheckpointError(GpustackError):
    """The file can't be read, or has been altered since it was written."""


class CheckpointFile:
    """A document at a path, of one version of its layout."""

    def __init__(self, path: pathlib.Path, *, version: int) -> None:
        self.path = path
        self._version = version

    def read(self) -> Any:
        """Return the data, or None when nothing was ever written.

        Raises:
            CheckpointError: unreadable, of another version, or the checksum doesn't match.
        """
        try:
            document = json.loads(regular_file.read(self.path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{self.path}: {error}") from error
        if not isinstance(document, dict) or document.get("version") != self._version:
            raise CheckpointError(f"{self.path}: not a version {self._version} checkpoint")
        data = document.get("data")
        if document.get("checksum") != _checksum(data):
            raise CheckpointError(f"{self.path}: the checksum does not match")
        return data

    def write(self, data: Any) -> None:
        """Replace the document; after it returns, the new one survives a power cut.

        Raises:
            CheckpointError: the disk refused; the old document is still there.
        """
        document = {"version": self._version, "checksum": _checksum(data), "data": data}
        try:
            self._replace(json.dumps(document).encode())
        except OSError as error:
            raise CheckpointError(f"{self.path}: {error}") from error

    def set_aside(self) -> pathlib.Path:
        """Move a broken document, or a folder in its place, out of the way; return its new path.

        A document that was moved there before is removed.

        Raises:
            CheckpointError: the disk refused.
        """
        aside = self.path.with_name(self.path.name + ".broken")
        try:
            if aside.is_dir() and not aside.is_symlink():
                shutil.rmtree(aside)
            else:
                aside.unlink(missing_ok=True)
            self.path.replace(aside)
        except OSError as error:
            raise CheckpointError(f"{self.path}: can't be moved away: {error}") from error
        return aside

    def _replace(self, content: bytes) -> None:
        folder = self.path.parent
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{self.path.name}.")
        temporary = pathlib.Path(name)
        try:
            with os.fdopen(descriptor, "wb") as sink:
                sink.write(content)
                sink.flush()
                os.fsync(sink.fileno())
            temporary.replace(self.path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        # The rename is only as durable as its folder.
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _checksum(data: Any) -> str:
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return "sha256:" + hashlib.sha256(canonical).hexdigest()
