"""Pods as GPUManager's users write them, and the ones that must be refused.

Their GPU limits are kept to the letter; image, cpu and memory are what a small machine has.
"""

from typing import Any

CORE = "tencent.com/vcuda-core"
MEMORY = "tencent.com/vcuda-memory"
CUDA_IMAGE = "gpustack.test/cuda:1"
# GPUManager's example: half a card and 32 x 256 MiB = 8 GiB
SHARE = {CORE: "50", MEMORY: "32"}
SHARE_BYTES = 32 * 268_435_456
# A container that puts files of its own in the place of ours, and holds the card with them.
MOVING = (
    "mv /etc/vcuda /etc/aside && mkdir /etc/vcuda && cd /etc/aside"
    " && cp limits activity ledger /etc/vcuda && ln -s /etc/aside/hook /etc/vcuda/hook"
    " && exec cuda-workload --hold"
)
# PID 1 of these pods is sleep, which does not listen to SIGTERM
GRACE_SECONDS = 1


def container(
    limits: dict[str, str], command: list[str], *, name: str = "vcuda-test"
) -> dict[str, Any]:
    """Return a container with these GPU limits and this command."""
    return {
        "name": name,
        "image": CUDA_IMAGE,
        "imagePullPolicy": "Never",
        "command": command,
        "resources": {"limits": dict(limits), "requests": dict(limits)},
    }


def pod(
    name: str,
    limits: dict[str, str],
    command: list[str] | None = None,
    *,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod of one container; other fields of its spec by name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [container(limits, command or ["sleep", "360000s"])],
            **spec,
        },
    }


def deployment(name: str, replicas: int, template_container: dict[str, Any]) -> dict[str, Any]:
    """Return a Deployment in the shape of GPUManager's example."""
    labels = {"k8s-app": name, "qcloud-app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"k8s-app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": GRACE_SECONDS,
                    "containers": [template_container],
                },
            },
        },
    }


def share_deployment(replicas: int) -> dict[str, Any]:
    """Return GPUManager's example: half a card, 8 GiB."""
    return deployment("vcuda-test", replicas, container(SHARE, ["sleep", "360000s"]))


def whole_card_deployment() -> dict[str, Any]:
    """Return a Deployment of one whole card, with nvidia-smi in a loop."""
    command = ["/usr/local/nvidia/bin/nvidia-smi", "-l", "1"]
    limits = {CORE: "100", MEMORY: "30"}
    return deployment("vcuda-whole", 1, container(limits, command))
