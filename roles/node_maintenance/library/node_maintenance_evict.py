"""Evicts pods through the Eviction API, which keeps their disruption budgets."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from kubernetes import client, config
except ImportError:
    client = config = None

DOCUMENTATION = r"""
module: node_maintenance_evict
short_description: Evict the given pods
description:
  - As kubernetes.core.k8s_drain, which evicts all pods of a node and ends at the first budget that
    allows no eviction now. A pod that is gone by now, or has another UID, is left alone.
  - Check mode evicts none.
options:
  kubeconfig: {type: path, required: true, description: Of an administrator.}
  pods: {type: list, elements: dict, required: true, description: name (NAMESPACE/NAME) and uid.}
  timeout_seconds: {type: int, required: true, description: How long budgets may refuse evictions.}
  pause_seconds: {type: float, required: true, description: Between two attempts.}
"""

_GONE, _CONFLICT, _BUDGET = 404, 409, 429


def evict(api: Any, pod: dict[str, str]) -> str | None:
    """Evict a pod; returns why it can't be now: its disruption budget, or a change at that time.

    Raises:
        kubernetes.client.ApiException: the server refuses it for another reason.
    """
    namespace, _, name = pod["name"].partition("/")
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=pod["uid"]))
    body = client.V1Eviction(
        metadata=client.V1ObjectMeta(name=name, namespace=namespace), delete_options=options
    )
    try:
        api.create_namespaced_pod_eviction(name, namespace, body)
    except client.ApiException as error:
        # A conflict means another UID, or that the pod was changed while the server evicted it.
        if error.status == _BUDGET or (error.status == _CONFLICT and is_there(api, pod)):
            return said(error)
        if error.status not in (_GONE, _CONFLICT):
            raise
    return None


def is_there(api: Any, pod: dict[str, str]) -> bool:
    """Say whether the cluster still has the pod, and none of its name with another UID."""
    namespace, _, name = pod["name"].partition("/")
    try:
        # Not decoded: managedFields that a user wrote may be nested too deeply, or no UTF-8.
        found = api.read_namespaced_pod(name, namespace, _preload_content=False)
    except client.ApiException as error:
        if error.status != _GONE:
            raise
        return False
    return re.search(rf'"uid"\s*:\s*"{re.escape(pod["uid"])}"'.encode(), found.data) is not None


def said(error: Any) -> str:
    """Return the server's words, with those that name the budget."""
    try:
        status = json.loads(error.body)
        causes = (status.get("details") or {}).get("causes") or ()
        return " ".join([status["message"], *(one.get("message", "") for one in causes)]).strip()
    except (AttributeError, KeyError, TypeError, ValueError):  # a proxy's answer, say
        return f"{error.status} {error.reason}"


def evict_all(
    api: Any, pods: list[dict[str, str]], timeout_seconds: float, pause_seconds: float
) -> dict[str, str]:
    """Evict pods, again and again where a budget refuses; returns why for each that stayed."""
    end = time.monotonic() + timeout_seconds
    waiting, why = pods, {}
    while True:
        why = {}
        for pod in waiting:
            try:
                refusal = evict(api, pod)
            except client.ApiException as error:
                raise ValueError(f"{pod['name']} can't be evicted: {said(error)}") from error
            if refusal is not None:
                why[pod["name"]] = refusal
        waiting = [pod for pod in waiting if pod["name"] in why]
        if not waiting or time.monotonic() + pause_seconds > end:
            return why
        time.sleep(pause_seconds)


def main() -> None:
    """Run as Ansible's module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "pods": {"type": "list", "elements": "dict", "required": True},
            "timeout_seconds": {"type": "int", "required": True},
            "pause_seconds": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    if client is None:
        module.fail_json(msg=missing_required_lib("kubernetes"))
    pods = module.params["pods"]
    names = [pod["name"] for pod in pods]
    if module.check_mode or not pods:
        module.exit_json(changed=bool(pods), evicted=names)
    timeout = module.params["timeout_seconds"]
    try:
        api = client.CoreV1Api(config.new_client_from_config(module.params["kubeconfig"]))
        why = evict_all(api, pods, timeout, module.params["pause_seconds"])
    except Exception as error:  # of the client: many kinds, and each says why
        module.fail_json(msg=f"{type(error).__name__}: {error}")
    if why:
        held = "; ".join(f"{name}: {words}" for name, words in sorted(why.items()))
        module.fail_json(
            msg=f"Pods could not be evicted for {timeout} s. {held}. Let a disruption budget allow "
            "one more disruption, or raise node_maintenance_timeout_seconds."
        )
    module.exit_json(changed=True, evicted=names)


if __name__ == "__main__":
    main()
