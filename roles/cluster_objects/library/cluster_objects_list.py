"""Lists objects of a cluster, whatever their users wrote into their managedFields."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from kubernetes import config, dynamic
except ImportError:
    config = dynamic = None

DOCUMENTATION = r"""
module: cluster_objects_list
short_description: List objects of a cluster without their managedFields
description:
  - As kubernetes.core.k8s_info, which can't read a list where a single object's
    C(metadata.managedFields) are nested too deeply for Python, or no UTF-8. The API server takes
    both from any user who may create an object.
  - Changes nothing. Of a kind that the server doesn't know there are no objects. Annotations that
    aren't asked for, and what containers run with, are left out, because a verbose run prints what
    a module returns.
options:
  kubeconfig: {type: path, required: true, description: Of an administrator.}
  version: {type: str, required: true, description: API version of the kind.}
  resource: {type: str, required: true, description: The kind as it stands in paths of the API.}
  field_selector: {type: str, default: "", description: Which of them.}
  annotations: {type: list, elements: str, default: [], description: Names of those to return.}
  limit_bytes: {type: int, description: The longest list that is read; left out, of any length.}
"""

# As gpustack/wire/kube/managed_fields.py, which says why.
_BEGINNING = re.compile(rb'"managedFields"[ \t\r\n]*:[ \t\r\n]*\[')
_BRACKET = re.compile(rb'(?:[^"\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]])', re.DOTALL)

_PASSWORDS = ("args", "command", "env", "httpHeaders")


def objects(raw: bytes, annotations: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the items of a list of the API, with these annotations alone.

    Raises:
        ValueError: it is none.
    """

    def without_passwords_or_others(value: dict[str, Any]) -> dict[str, Any]:
        return without_passwords(value, annotations)

    document = json.loads(without_managed_fields(raw), object_hook=without_passwords_or_others)
    found: list[dict[str, Any]] = document["items"]
    return found


def without_passwords(value: dict[str, Any], annotations: Collection[str] = ()) -> dict[str, Any]:
    """Return an object without the fields in which tenants write passwords."""
    # `kubectl apply` keeps the whole object, environments too, in an annotation.
    if isinstance(value.get("annotations"), dict):
        kept = {key: text for key, text in value.pop("annotations").items() if key in annotations}
        value.update({"annotations": kept} if kept else {})
    for name in _PASSWORDS:
        if isinstance(value.get(name), list | dict):  # a label of this name is a text
            del value[name]
    return value


def without_managed_fields(raw: bytes) -> bytes:
    """Return JSON with every `managedFields` empty."""
    kept: list[bytes] = []
    at = 0
    while (found := _BEGINNING.search(raw, at)) is not None:
        kept.append(raw[at : found.end()])
        at = found.end()
        if raw[found.start() - 1 : found.start()] != b"\\":  # else it stands within a text
            kept.append(b"]")
            at = _end(raw, at)
    return b"".join((*kept, raw[at:]))


def _end(raw: bytes, at: int) -> int:
    open_ones = 1
    while open_ones:
        bracket: Any = _BRACKET.match(raw, at)
        if bracket is None:
            return len(raw)
        at = bracket.end()
        open_ones += 1 if bracket[1] == b"[" else -1
    return at


def read(params: dict[str, Any]) -> bytes:
    """Read the list from the API server; empty where it doesn't know the kind.

    Raises:
        ValueError: it has more bytes than the limit.
    """
    version = params["version"]
    path = f"/{'apis' if '/' in version else 'api'}/{version}/{params['resource']}"
    client = config.new_client_from_config(config_file=params["kubeconfig"])
    # Without discovery of the kinds: the path is known.
    reader = dynamic.DynamicClient(client, discoverer=lambda *_: None)
    selector = params["field_selector"] or None
    try:
        answer = reader.request("get", path, field_selector=selector, serialize=False)
    except dynamic.exceptions.NotFoundError:
        return b'{"items":[]}'
    limit: int | None = params["limit_bytes"]
    data: bytes = answer.read(None if limit is None else limit + 1)
    if limit is not None and len(data) > limit:
        raise ValueError(f"more than {limit} bytes; delete those that nothing uses")
    return data


def main() -> None:
    """Run as Ansible's module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "version": text,
            "resource": text,
            "field_selector": {"type": "str", "default": ""},
            "annotations": {"type": "list", "elements": "str", "default": []},
            "limit_bytes": {"type": "int"},
        },
        supports_check_mode=True,
    )
    if config is None:
        module.fail_json(msg=missing_required_lib("kubernetes"))
    try:
        resources = objects(read(module.params), module.params["annotations"])
    except Exception as error:  # of the client: many kinds, and each says why
        resource = module.params["resource"]
        module.fail_json(msg=f"{resource} can't be listed: {type(error).__name__}: {error}")
    module.exit_json(changed=False, resources=resources)


if __name__ == "__main__":
    main()
