"""What a host's programs answer: the driver, the agent, the kubelet and the container runtime."""

import http.client
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Final

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
    connection = http.client.HTTPConnection(address, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise ServiceError(f"{where}: {error}: does gpustack-agent run?") from error
    finally:
        connection.close()
    if response.status not in {_READY, _UNREADY}:
        raise ServiceError(f"{where} answers with status {response.status}: no agent listens there")
    return () if response.status == _READY else tuple(body.splitlines())
