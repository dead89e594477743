"""The tokens of one host in a folder, and the program that renews them."""

import base64
import collections.abc
import dataclasses
import grp
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from tests.ansible import layout

PROGRAM = layout.ROOT / "roles/gpustack_extender/files/tokens"
GROUP = grp.getgrgid(os.getgid()).gr_name
ACCOUNT = "gpustack-extender"
HOUR = 3600
Answer = collections.abc.Callable[[], tuple[int, bytes]]


def token(left: float, whole: float = 72, **changes: Any) -> str:
    """Return a token of the extender's account, which ends in so many hours.

    Args:
        left: hours.
        whole: hours that it lasts in all.
        changes: other claims of `kubernetes.io`.
    """
    ends = int(time.time() + left * HOUR)
    bound = {
        "namespace": "kube-system",
        "serviceaccount": {"name": ACCOUNT, "uid": "of-the-account"},
        "secret": {"name": f"{ACCOUNT}.cp1-01234567", "uid": "of-the-secret"},
        **changes,
    }
    claims = {"exp": ends, "iat": ends - int(whole * HOUR), "kubernetes.io": bound}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.signed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostTokens:
    """A host's folder of tokens.

    Attributes:
        folder: where they lie.
        server: the API server's URL.
        authority: of its certificate, PEM; empty for one without TLS.
    """

    folder: pathlib.Path
    server: str
    authority: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Return what the program is told."""
        return {
            "folder": str(self.folder),
            "groups": {ACCOUNT: GROUP},
            "seconds": 72 * HOUR,
            "server": self.server,
            "authority": self.authority,
        }

    @property
    def file(self) -> pathlib.Path:
        """Return the extender's token."""
        return self.folder / ACCOUNT

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the program as the timer does."""
        file = self.folder.parent / "settings.json"
        file.write_text(json.dumps(self.settings))
        return subprocess.run(
            [sys.executable, "-BI", str(PROGRAM), str(file), *arguments],
            check=False,
            capture_output=True,
            text=True,
        )


@dataclasses.dataclass(slots=True)
class Api:
    """An API server on loopback.

    Attributes:
        answer: gives the status and body of the next answer.
        asked: path, authorization and body of the requests that came.
        url: where it is.
    """

    answer: Answer
    asked: list[tuple[str, str, Any]] = dataclasses.field(default_factory=list)
    url: str = ""


def given(text: object) -> tuple[int, bytes]:
    """Return the answer that gives a token."""
    return 201, json.dumps({"kind": "TokenRequest", "status": {"token": text}}).encode()
