"""The tokens of one host: each is renewed with itself, in one step, and stays when that fails."""

from __future__ import annotations

import contextlib
import datetime
import grp
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import claims
from token_request import ApiServer, RequestError

_MODE = 0o640
_MOST_BYTES = 1 << 16  # as the readers take


class Tokens:
    """The files of tokens in one folder."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Keep the settings; read no file yet.

        Args:
            settings: `folder`, where they lie; `groups`, a file's name to the group that reads it;
                `seconds` that a new one lasts; `server`, the API server's URL, and its `authority`.
        """
        self._settings = settings
        self._api = ApiServer(settings["server"], settings["authority"])

    def renew(self) -> list[str]:
        """Renew those that are due; returns what is wrong."""
        return [problem for name in self._settings["groups"] for problem in self._renewed(name)]

    def look(self) -> list[str]:
        """Return which are missing, have ended or are near their end; changes nothing."""
        return [problem for name in self._settings["groups"] for problem in self._late(name)]

    def _renewed(self, name: str) -> Iterator[str]:
        path, seconds = self._path(name), self._settings["seconds"]
        try:
            token = self._read(name)
            found = claims.read(token)
            # The server says whether it has ended: this host's clock may be wrong.
            if found.is_due(time.time(), seconds):
                following = self._api.next_token(token, found, seconds)
                _require_later(following, found)
                self._replace(name, token, following)
        except claims.BadToken as error:
            yield f"{path}: {error}"
        except (OSError, RequestError) as error:
            yield f"{path}: can't be renewed, and stays: {error}"

    def _late(self, name: str) -> Iterator[str]:
        try:
            found = claims.read(self._read(name))
        except (OSError, claims.BadToken) as error:
            yield f"{self._path(name)}: {error}"
            return
        if found.is_late(now := time.time()):
            moment = datetime.datetime.fromtimestamp(found.ends, datetime.UTC).isoformat()
            yield f"{self._path(name)}: {'ends' if found.ends > now else 'has ended'} at {moment}"

    def _path(self, name: str) -> str:
        return os.path.join(self._settings["folder"], name)

    def _read(self, name: str) -> str:
        with open(self._path(name), encoding="ascii", errors="replace") as file:
            return file.read(_MOST_BYTES).strip()

    def _replace(self, name: str, before: str, token: str) -> None:
        """Replace a file in one step, so that each reader gets a whole token with its mode."""
        folder, prefix = self._settings["folder"], f".{name}."
        for left in os.listdir(folder):
            if left.startswith(prefix):  # of a run that was ended: it has a token
                os.unlink(os.path.join(folder, left))
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=prefix)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                os.fchown(descriptor, 0, grp.getgrnam(self._settings["groups"][name]).gr_gid)
                os.fchmod(descriptor, _MODE)
                file.write(token)
                file.flush()
                # a host that loses power keeps the one before, or this one whole
                os.fsync(descriptor)
            # rotate.yml may have laid another meanwhile, whose Secret is newer than this one's.
            if self._read(name) == before:
                os.rename(temporary, self._path(name))
                return
        except KeyError as error:
            raise OSError(f"the group {error} is not on this host") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def _require_later(token: str, before: claims.Claims) -> None:
    """Refuse a token that would be worse than the one that is there."""
    try:
        found = claims.read(token)
    except claims.BadToken as error:
        raise RequestError(f"the server's answer {error}") from error
    if found[:4] != before[:4] or found.begins < before.begins:
        raise RequestError("the server's answer is another account's, or older than the token")
