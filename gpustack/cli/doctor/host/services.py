"""What a host's programs answer: the driver, the agent, the kubelet and the container runtime."""

import json
import os
import pathlib
import ssl
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from gpustack.adapters import http_get
from gpustack.cli.doctor.host import nvml_process
from gpustack.model.errors import GpustackError

_SECONDS: Final = 5.0  # for one answer
_NVML_SECONDS: Final = 8.0  # without persistence mode the driver starts each card anew
_MOST_BYTES: Final = 1 << 16
_READY: Final = 200
_UNREADY: Final = 503


class ServiceError(GpustackError):
    """A program of the host does not answer, or not as it should."""


def nvml() -> dict[str, Any]:
    """Return what NVML says, asked in a process of its own.

    Raises:
        ServiceError: it gives no answer.
    """
    root = pathlib.Path(__file__).parents[4]
    # -P: the folder that root happens to stand in may be anybody's.
    command = [sys.executable, "-P", "-m", nvml_process.__name__]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_NVML_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        text = f"the driver has not answered NVML for {_NVML_SECONDS:g} s"
        raise ServiceError(f"{text}; see dmesg for Xid, and boot the host") from error
    lines = done.stdout.splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ServiceError(f"asking NVML ended with status {done.returncode}: {said}") from error
    if "problem" in found:
        raise ServiceError(found["problem"])
    return found


def unready(address: str, port: int) -> tuple[str, ...]:
    """Return what keeps the agent from taking work, as `/readyz` says it.

    Raises:
        ServiceError: nothing answers there, or not an agent.
    """
    where = f"http://{address}:{port}/readyz"
    try:
        answer = http_get.get(where, seconds=_SECONDS, max_bytes=_MOST_BYTES)
    except http_get.HttpGetError as error:
        raise ServiceError(f"{error}: does gpustack-agent run?") from error
    if answer.status not in {_READY, _UNREADY}:
        raise ServiceError(f"{where} answers with status {answer.status}: no agent listens there")
    body = answer.body.decode("utf-8", "replace")
    return () if answer.status == _READY else tuple(body.splitlines())


def agent_version(address: str, port: int) -> str:
    """Return the version that the agent says of itself.

    Raises:
        ServiceError: nothing answers there, or not an agent.
    """
    where = f"http://{address}:{port}/version"
    try:
        body = http_get.get(where, seconds=_SECONDS, max_bytes=_MOST_BYTES).body
        return str(json.loads(body)["version"])
    except http_get.HttpGetError as error:
        raise ServiceError(f"{error}: does gpustack-agent run?") from error
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise ServiceError(f"{where} does not answer as an agent") from error


def extender_version(entry: Mapping[str, Any]) -> str:
    """Return the version that an extender says of itself, asked as its scheduler would.

    Args:
        entry: of `extenders` in the scheduler's configuration.

    Raises:
        ServiceError: nothing answers there, or not an extender; or TLS is refused.
    """
    where = urllib.parse.urljoin(str(entry.get("urlPrefix")), "/version")
    try:
        context = _tls(entry) if where.startswith("https:") else None
        answer = http_get.get(where, seconds=_SECONDS, max_bytes=_MOST_BYTES, tls=context)
    except (http_get.HttpGetError, OSError, ValueError, TypeError) as error:
        raise ServiceError(f"{where}: {error}: does gpustack-extender run?") from error
    text = answer.body.decode("utf-8", "replace").strip()
    if answer.status != _READY or not text.isprintable():
        raise ServiceError(
            f"{where} answers with status {answer.status}: no extender listens there"
        )
    return text


def _tls(entry: Mapping[str, Any]) -> ssl.SSLContext:
    """Return how a scheduler calls over TLS, by the files of its `tlsConfig`.

    Raises:
        OSError, ValueError: a file can't be used.
    """
    config = entry.get("tlsConfig")
    files = config if isinstance(config, dict) else {}
    context = ssl.create_default_context(cafile=files.get("caFile"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go has no such rule
    if "certFile" in files:
        context.load_cert_chain(files["certFile"], files.get("keyFile"))
    return context
