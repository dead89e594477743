"""Takes extended resources and conditions out of a node's status."""

from __future__ import annotations

import json
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from kubernetes import config, dynamic
except ImportError:
    config = dynamic = None

DOCUMENTATION = r"""
module: cluster_objects_resources
short_description: Take extended resources and conditions out of a node's status
description:
  - A kubelet whose device plugin is gone goes on to report its resources with an allocatable amount
    of 0, after five minutes with a capacity of 0, and for ever then. It writes a capacity that is
    not 0 again, so that this module waits until it is.
  - A node that isn't there has none. kubernetes.core.k8s writes no status.
options:
  kubeconfig: {type: path, required: true, description: Of an administrator.}
  node: {type: str, required: true, description: Its name.}
  resources: {type: list, elements: str, default: [], description: Their names.}
  conditions: {type: list, elements: str, default: [], description: Types of the conditions.}
  timeout_seconds:
    type: int
    default: 0
    description: How long the kubelet may report them; 0 for one that doesn't run any more.
  pause_seconds: {type: float, default: 5, description: Between two looks at the node.}
"""

_PARTS = ("capacity", "allocatable")


def amounts(status: dict[str, Any], resources: list[str]) -> dict[str, dict[str, str]]:
    """Return what a node's status says of resources, by its parts."""
    return {
        part: {name: text for name, text in (status.get(part) or {}).items() if name in resources}
        for part in _PARTS
    }


def present(status: dict[str, Any], conditions: list[str]) -> list[str]:
    """Return which of these types of conditions a node's status has."""
    found = {condition.get("type") for condition in status.get("conditions") or ()}
    return sorted(found.intersection(conditions))


class Node:
    """A node of the API server."""

    def __init__(self, kubeconfig: str, name: str) -> None:
        client = config.new_client_from_config(config_file=kubeconfig)
        # Without discovery of the kinds: the path is known.
        self._client = dynamic.DynamicClient(client, discoverer=lambda *_: None)
        self._path = f"/api/v1/nodes/{name}"

    def status(self) -> dict[str, Any]:
        """Read its status; empty where the cluster has no such node."""
        try:
            answer = self._client.request("get", self._path, serialize=False)
        except dynamic.exceptions.NotFoundError:
            return {}
        found: dict[str, Any] = json.loads(answer.data).get("status") or {}
        return found

    def remove(self, found: dict[str, dict[str, str]], conditions: list[str]) -> None:
        """Take away what `amounts` and `present` have found."""
        # null in a patch removes a key
        parts: dict[str, Any] = {name: dict.fromkeys(each) for name, each in found.items() if each}
        if conditions:
            parts["conditions"] = [{"type": each, "$patch": "delete"} for each in conditions]
        kind = "application/strategic-merge-patch+json"
        body = {"status": parts}
        self._client.request("patch", f"{self._path}/status", body=body, content_type=kind)


def main() -> None:
    """Run as Ansible's module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "resources": {"type": "list", "elements": "str", "default": []},
            "conditions": {"type": "list", "elements": "str", "default": []},
            "timeout_seconds": {"type": "int", "default": 0},
            "pause_seconds": {"type": "float", "default": 5},
        },
        supports_check_mode=True,
    )
    if config is None:
        module.fail_json(msg=missing_required_lib("kubernetes"))
    name, seconds = module.params["node"], module.params["timeout_seconds"]
    end = time.monotonic() + seconds
    try:
        node = Node(module.params["kubeconfig"], name)
        while True:
            status = node.status()
            found = amounts(status, module.params["resources"])
            held = {key: text for key, text in found["capacity"].items() if text != "0"}
            if not held or not seconds or module.check_mode:
                break
            if time.monotonic() > end:
                said = ", ".join(f"{key}: {text}" for key, text in sorted(held.items()))
                module.fail_json(
                    msg=f"The kubelet of node {name} has reported {said} for {seconds} s after "
                    "its device plugin went. See whether another one serves these names there."
                )
            time.sleep(module.params["pause_seconds"])
        conditions = present(status, module.params["conditions"])
        changed = any(found.values()) or bool(conditions)
        if changed and not module.check_mode:
            node.remove(found, conditions)
    except Exception as error:  # of the client: many kinds, and each says why
        module.fail_json(msg=f"Node {name}'s status: {type(error).__name__}: {error}")
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
