"""Objects and answers of the fake API server, made of a request's parts."""

import uuid

from tests.fakes.kube_store import Key, KubeObject, StoreError


def selectors(query: dict[str, str]) -> tuple[str, str]:
    return query.get("fieldSelector", ""), query.get("labelSelector", "")


def created_key(key: Key, body: KubeObject) -> Key:
    metadata = body.get("metadata") or {}
    name = metadata.get("name")
    if not name and metadata.get("generateName"):
        name = metadata["generateName"] + uuid.uuid4().hex[:5]
    if not name:
        raise StoreError(422, "Invalid", "metadata.name: Required value")
    return key[0], key[1], name


def replaced(old: KubeObject, new: KubeObject) -> KubeObject:
    version = (new.get("metadata") or {}).get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise StoreError(409, "Conflict", "the object has been modified")
    new["metadata"]["uid"] = old["metadata"]["uid"]
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    return new


def status_of(code: int, reason: str, message: str) -> KubeObject:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
