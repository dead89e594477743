"""What a host's programs answer by gRPC; imported only where it is installed, on GPU hosts."""

import pathlib
import time
from typing import Final

from gpustack.adapters.cri import CriClient, endpoint_of
from gpustack.adapters.display import DisplayClient
from gpustack.adapters.podresources import PodResourcesClient

_SECONDS: Final = 5.0  # for one answer


def agent_version(socket: pathlib.Path) -> str:
    """Return the version of the agent that runs.

    Raises:
        AgentUnavailable: it doesn't answer.
    """
    return DisplayClient(socket).version(timeout_seconds=_SECONDS)


def pod_resources(socket: pathlib.Path) -> None:
    """Ask the kubelet's PodResources.

    Raises:
        PodResourcesUnavailable, PodResourcesLimited: it doesn't answer.
    """
    client = PodResourcesClient(socket)
    try:
        client.list((), deadline=time.monotonic() + _SECONDS)
    finally:
        client.close()


def runtime(named: str, kubelet_root: pathlib.Path) -> str:
    """Return the name, version and socket of the container runtime.

    Raises:
        RuntimeEndpointError: none is named, and not exactly one is there.
        CriUnavailable: it doesn't answer.
    """
    client = CriClient(endpoint_of(named, kubelet_root), timeout_seconds=_SECONDS)
    try:
        found = client.version()
    finally:
        client.close()
    return f"{found.name} {found.version} at {client.endpoint}"
