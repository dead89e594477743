"""The socket of the container runtime, where the configuration doesn't name it."""

import logging
import pathlib
import re
from collections.abc import Sequence
from typing import Final

import yaml

from gpustack.adapters.cri.client import CriClient, CriUnavailable
from gpustack.model.errors import GpustackError
from gpustack.wire.files import regular_file, strict_yaml

logger = logging.getLogger(__name__)

# Defaults of containerd, CRI-O, k3s and RKE2, and cri-dockerd (kubeadm's own list of sockets, and
# k3s's agent configuration).
SOCKETS: Final = (
    pathlib.Path("/run/containerd/containerd.sock"),
    pathlib.Path("/run/crio/crio.sock"),
    pathlib.Path("/run/k3s/containerd/containerd.sock"),
    pathlib.Path("/run/cri-dockerd.sock"),
)

_MOST_BYTES: Final = 1 << 20
_FLAG: Final = re.compile(r"--container-runtime-endpoint[= ]\"?([^\s\"]+)")


class RuntimeEndpointError(GpustackError):
    """It isn't known which runtime is the kubelet's; says what to do."""


def endpoint_of(named: str, kubelet_root: pathlib.Path) -> str:
    """Return the runtime's socket: the one that the agent's configuration names, or as it is found.

    Raises:
        RuntimeEndpointError: none is named, and not exactly one is there.
    """
    if named:
        return named
    endpoint = find(kubelet_root)
    logger.info("container runtime found endpoint=%s", endpoint)
    return endpoint


def find(kubelet_root: pathlib.Path, sockets: Sequence[pathlib.Path] = SOCKETS) -> str:
    """Return the endpoint that the kubelet uses, as it says itself, or else the only one.

    Args:
        kubelet_root: the kubelet's folder.
        sockets: where runtimes listen.

    Raises:
        RuntimeEndpointError: as `endpoint_of`.
    """
    for named in (_in_config(kubelet_root / "config.yaml"), _in_flags(kubelet_root)):
        if named:
            return named if named.startswith("unix://") else f"unix://{named}"
    here = [f"unix://{path}" for path in sockets if path.is_socket()]
    answering = here if len(here) == 1 else [each for each in here if _answers(each)]
    if len(answering) == 1:
        return answering[0]
    if not answering:
        places = ", ".join(map(str, sockets))
        raise RuntimeEndpointError(f"no container runtime answers at {places}; set cri_endpoint")
    several = ", ".join(answering)
    raise RuntimeEndpointError(f"several container runtimes answer: {several}; set cri_endpoint")


def _in_config(path: pathlib.Path) -> str:
    """Return `containerRuntimeEndpoint` of a KubeletConfiguration; empty where it has none."""
    text = _read(path)
    try:
        found = strict_yaml.load(text)
    except (yaml.YAMLError, RecursionError) as error:
        logger.warning("the kubelet's configuration can't be read path=%s: %s", path, error)
        return ""
    named = found.get("containerRuntimeEndpoint") if isinstance(found, dict) else None
    return named if isinstance(named, str) else ""


def _in_flags(kubelet_root: pathlib.Path) -> str:
    """Return the flag that kubeadm gives the kubelet; empty where it gives none."""
    match = _FLAG.search(_read(kubelet_root / "kubeadm-flags.env"))
    return match.group(1) if match else ""


def _read(path: pathlib.Path) -> str:
    try:
        return regular_file.read(path, max_bytes=_MOST_BYTES).decode()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        logger.warning("not read path=%s: %s", path, error)
        return ""


def _answers(endpoint: str) -> bool:
    client = CriClient(endpoint)
    try:
        found = client.version()
    except CriUnavailable as error:
        logger.info("no CRI v1 endpoint=%s: %s", endpoint, error)
        return False
    finally:
        client.close()
    logger.info(
        "a container runtime answers endpoint=%s name=%s version=%s",
        endpoint,
        found.name,
        found.version,
    )
    return True
