"""The API server's rules that our code depends on: selectors, patches, preconditions, binding.

Checked against Kubernetes 1.34: a patch whose ``metadata.uid`` is another object's is 422 Invalid
(the field is immutable), one whose ``resourceVersion`` is old is 409 Conflict; a Binding's
preconditions are 409, and so is a pod that is bound already.
"""

import copy
from typing import Any

from tests.fakes.kube_store import KubeObject, StoreError

# Lists that strategic merge patches by a key instead of replacing them.
_MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "containerStatuses": "name",
    "taints": "key",
    "ownerReferences": "uid",
}
_FIELDS = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.schedulerName": ("spec", "schedulerName"),
    "status.phase": ("status", "phase"),
    "involvedObject.uid": ("involvedObject", "uid"),
}

REVIEWS = frozenset({"tokenreviews", "subjectaccessreviews"})


def matches(value: KubeObject, field_selector: str, label_selector: str) -> bool:
    """Whether an object is selected; equality terms, and bare or negated label names."""
    return _fields_match(value, field_selector) and _labels_match(value, label_selector)


def _terms(selector: str) -> list[str]:
    return [term.strip() for term in selector.split(",") if term.strip()]


def _fields_match(value: KubeObject, selector: str) -> bool:
    for term in _terms(selector):
        name, negated, wanted = _split(term)
        if name not in _FIELDS:
            raise StoreError(400, "BadRequest", f"field label not supported: {name}")
        section, field = _FIELDS[name]
        if (str((value.get(section) or {}).get(field) or "") == wanted) == negated:
            return False
    return True


def _labels_match(value: KubeObject, selector: str) -> bool:
    labels = value["metadata"].get("labels") or {}
    for term in _terms(selector):
        if "=" in term:
            name, negated, wanted = _split(term)
            if (labels.get(name) == wanted) == negated:
                return False
        elif (term.lstrip("!") in labels) == term.startswith("!"):
            return False
    return True


def _split(term: str) -> tuple[str, bool, str]:
    name, _, wanted = term.partition("=")
    return name.rstrip("!").strip(), name.endswith("!"), wanted.lstrip("=").strip()


def patched(value: KubeObject, patch: KubeObject, content_type: str) -> KubeObject:
    """Apply a merge patch, or a strategic one, under the metadata's preconditions."""
    if content_type not in {
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    }:
        raise StoreError(415, "UnsupportedMediaType", f"not supported: {content_type}")
    current, wanted = value["metadata"], patch.get("metadata") or {}
    if wanted.get("resourceVersion", current["resourceVersion"]) != current["resourceVersion"]:
        raise StoreError(409, "Conflict", "the object has been modified")
    for field in ("uid", "name", "namespace"):
        if wanted.get(field, current.get(field)) != current.get(field):
            raise StoreError(
                422,
                "Invalid",
                f'"{current["name"]}" is invalid: metadata.{field}: '
                f"Invalid value: {wanted[field]!r}: field is immutable",
            )
    result: KubeObject = _merged(value, patch, strategic="strategic" in content_type)
    return result


def written(
    resource: str, part: str, old: KubeObject, patch: KubeObject, content_type: str
) -> KubeObject:
    """Patch a part of an object (`status`, or empty for the rest); a pod's other parts stay.

    Raises:
        StoreError: as `patched`.
    """
    new = patched(old, patch, content_type)
    return _kept_apart(old, new, part) if resource == "pods" else new


def _kept_apart(old: KubeObject, new: KubeObject, part: str) -> KubeObject:
    """Undo what a write to this part of a pod doesn't change.

    As the pod registry's strategies do: the status carries no spec and no owners, the rest no
    status. Labels, annotations and finalizers can be written both ways.
    """
    if part:
        fixed = {"ownerReferences", "deletionTimestamp"}
        metadata = {key: value for key, value in new["metadata"].items() if key not in fixed}
        metadata |= {key: old["metadata"][key] for key in fixed & old["metadata"].keys()}
        result = {**new, "metadata": metadata, "spec": old.get("spec")}
        return result if "spec" in old else {k: v for k, v in result.items() if k != "spec"}
    result = {key: value for key, value in new.items() if key != "status"}
    return {**result, "status": old["status"]} if "status" in old else result


def _merged(value: Any, patch: Any, *, strategic: bool, name: str = "") -> Any:
    if isinstance(patch, dict):
        result = dict(value) if isinstance(value, dict) else {}
        for key, wanted in patch.items():
            if wanted is None:
                result.pop(key, None)
            else:
                result[key] = _merged(result.get(key), wanted, strategic=strategic, name=key)
        return result
    if strategic and isinstance(patch, list) and name in _MERGE_KEYS:
        return _merged_list(value if isinstance(value, list) else [], patch, _MERGE_KEYS[name])
    return copy.deepcopy(patch)


def _merged_list(value: list[Any], patch: list[Any], by: str) -> list[Any]:
    """Merge entries of the same key, append the others."""
    result = {entry.get(by): entry for entry in value}
    for entry in patch:
        result[entry.get(by)] = _merged(result.get(entry.get(by)), entry, strategic=True)
    return list(result.values())


def bound(pod: KubeObject, binding: KubeObject) -> KubeObject:
    """Bind a pod: node, annotations and the condition in one step, or nothing.

    The order of the checks and their words are those of the pod registry's ``BindingREST``; it
    doesn't check whether the node exists.
    """
    metadata, wanted = pod["metadata"], binding.get("metadata") or {}
    target = binding.get("target") or {}
    name = metadata["name"]
    if wanted.get("name", name) != name:
        raise StoreError(400, "BadRequest", "name in URL does not match name in Binding object")
    if not target.get("name"):
        raise StoreError(
            422, "Invalid", f'Binding "{name}" is invalid: target.name: Required value'
        )
    if target.get("kind", "Node") != "Node":
        raise StoreError(422, "Invalid", f'Binding "{name}" is invalid: target.kind: Unsupported')
    problem = _unmet(metadata, wanted) or _unbindable(pod)
    if problem:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {problem}'
        raise StoreError(409, "Conflict", message)
    pod.setdefault("spec", {})["nodeName"] = target["name"]
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {**annotations, **(wanted.get("annotations") or {})}
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    status["conditions"] = [*others, {"type": "PodScheduled", "status": "True"}]
    return pod


def _unmet(metadata: KubeObject, wanted: KubeObject) -> str:
    for field, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata[field]:
            return (
                f"Precondition failed: {words} in precondition: {wanted[field]}, "
                f"{words} in object meta: {metadata[field]}"
            )
    return ""


def stays(pod: KubeObject, options: KubeObject) -> bool:
    """Say whether a deleted pod is kept until its kubelet has ended it.

    As k8s.io/kubernetes 1.37 pkg/registry/core/pod/strategy.go (CheckGracefulDelete) has it, but
    for a deletion that asks for no grace: no test needs that of the pod.
    """
    is_over = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    is_bound = bool((pod.get("spec") or {}).get("nodeName"))
    return is_bound and not is_over and options.get("gracePeriodSeconds", 0) > 0


def leaving(pod: KubeObject, options: KubeObject) -> KubeObject:
    """Return the deleted pod while its kubelet ends it."""
    grace = {"deletionGracePeriodSeconds": options["gracePeriodSeconds"]}
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", **grace}
    return pod


def _unbindable(pod: KubeObject) -> str:
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def reviewed(
    kind: str, review: KubeObject, tokens: dict[str, KubeObject], rights: set[tuple[str, str, str]]
) -> KubeObject:
    """Answer a TokenReview, or a SubjectAccessReview of a path.

    Of an unknown token 1.34 says why, and of whom nothing. There is no other authorization here.
    """
    spec = review["spec"]
    if kind == "subjectaccessreviews":
        asked = spec["nonResourceAttributes"]
        allowed = (spec["user"], asked["verb"], asked["path"]) in rights
        return {**review, "status": {"allowed": allowed}}
    user = tokens.get(spec["token"])
    if user is None:
        return {**review, "status": {"user": {}, "error": "[invalid bearer token, unknown]"}}
    audiences = ["https://kubernetes.default.svc"]
    return {**review, "status": {"authenticated": True, "user": user, "audiences": audiences}}
