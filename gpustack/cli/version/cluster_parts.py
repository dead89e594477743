"""The parts of a cluster: its API server, and what each node's kubelet and agent say."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpustack.adapters.kube import KubeClient
from gpustack.cli import options, source
from gpustack.cli.version.part import Part, part, take, unread
from gpustack.wire.annotations import BadAnnotation, annotations_of
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.keys import Keys
from gpustack.wire.nodes import decode_node, decode_software

API_SERVER: Final = "api-server"
# Of a node's `status.nodeInfo`, which its kubelet writes.
_OF_KUBELET: Final[Mapping[str, str]] = {
    "kubelet": "kubeletVersion",
    "container-runtime": "containerRuntimeVersion",
    "kernel": "kernelVersion",
    "system": "osImage",
}


def read(chosen: argparse.Namespace) -> list[Part]:
    """Return the parts of the cluster or the snapshot that the options name.

    Raises:
        GpustackError: nothing can be read.
    """
    keys = Keys(chosen.domain)
    if chosen.snapshot is not None:
        return list(_of_nodes(keys, options.read(chosen)))
    context = source.find(chosen)
    client = KubeClient.of_context(context)
    server = take(API_SERVER, lambda: source.read_version(client))
    nodes = {"items": list(source.read_items(client, "Node"))}
    return [server, *_of_nodes(keys, options.parse(chosen, context, nodes))]


def _of_nodes(keys: Keys, snapshot: Snapshot) -> Iterator[Part]:
    for item in sorted(snapshot.nodes, key=lambda each: str(each["metadata"]["name"])):
        yield from _of_agent(keys, item)
        yield from _of_kubelet(item)


def _of_agent(keys: Keys, item: Mapping[str, Any]) -> Iterator[Part]:
    """Yield what the agent's record says; nothing of a node without one."""
    name = item["metadata"]["name"]
    if keys.gpu_devices not in annotations_of(item):
        return
    try:
        node, software = decode_node(keys, item), decode_software(keys, item)
    except BadAnnotation as error:
        yield unread("agent", error, name)
        return
    yield part("agent", software.agent, name)
    yield part("hook", software.hook, name)
    yield part("driver", node.driver, name)
    yield part("cuda", node.cuda, name)


def _of_kubelet(item: Mapping[str, Any]) -> Iterator[Part]:
    info = (item.get("status") or {}).get("nodeInfo") or {}
    for name, field in _OF_KUBELET.items():
        said = info.get(field) if isinstance(info, dict) else None
        if isinstance(said, str) and said:
            yield part(name, said, item["metadata"]["name"])
