"""Rights from the shipped RBAC objects and policies, and the extender's requests beyond them."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from gpustack.wire.keys import Keys
from tests.control_plane import identity
from tests.fakes.kube_http import Request

_NAMESPACE = "kube-system"
_KEYS = Keys()
_PREFIXES = (f"{_KEYS.domain}/predicate-", _KEYS.gpu_assigned, _KEYS.gpu_retry)
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


@functools.cache
def roles(*, token_reviews: bool = False) -> tuple[dict[str, Any], ...]:
    """Return ClusterRole and Role as a site gets them, with or without tokens of readers."""
    objects = identity.rbac_objects(token_reviews=token_reviews)
    return tuple(one for one in objects if one["kind"] in ("ClusterRole", "Role"))


def granted() -> set[tuple[str, str]]:
    """Return every right: resource and verb."""
    return {
        (resource, verb)
        for role in roles()
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(requests: Iterable[Request]) -> set[tuple[str, str]]:
    """Return the rights that requests need."""
    return {(asked.resource, asked.verb) for asked in map(_Asked.of, list(requests))}


def forbidden(requests: Iterable[Request], *, token_reviews: bool = False) -> list[str]:
    """Return the requests that an API server with these roles and policies answers with 403."""
    given = roles(token_reviews=token_reviews)
    unlawful = {str(one) for one in map(_Asked.of, list(requests)) if not _allowed(one, given)}
    return sorted(unlawful | {one.path for one in list(requests) if not _confined(one)})


def _confined(request: Request) -> bool:
    """Say whether a write to a pod keeps to the policy `gpustack-extender`.

    Annotations of the domain alone, with the preconditions that make them hold for one pod.
    """
    if request.method == "GET" or "/pods/" not in request.path:
        return True
    metadata = request.body["metadata"]
    written = metadata.get("annotations") or {}
    if not all(key.startswith(_PREFIXES) for key in written):
        return False
    if request.path.endswith("/binding"):
        return set(metadata).isdisjoint({"labels", "finalizers", "ownerReferences"})
    known = {"uid", "resourceVersion", "annotations"}
    return set(request.body) == {"metadata"} and set(metadata) <= known


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request as RBAC sees it; ``name`` is empty where the request is for all objects."""

    group: str
    resource: str
    verb: str
    namespace: str
    name: str

    @classmethod
    def of(cls, request: Request) -> "_Asked":
        parts = request.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        selected = request.query.get("fieldSelector", "").partition("metadata.name=")[2]
        reading = "watch" if "watch" in request.query else "get" if len(rest) > 1 else "list"
        return cls(
            group=group,
            resource="/".join([rest[0], *rest[2:3]]),
            verb=_VERBS.get(request.method, reading),
            namespace=namespace,
            name=rest[1] if len(rest) > 1 else selected,
        )


def _allowed(asked: _Asked, given: Iterable[dict[str, Any]]) -> bool:
    return any(
        (role["kind"] == "ClusterRole" or asked.namespace == _NAMESPACE)
        and asked.group in rule["apiGroups"]
        and asked.resource in rule["resources"]
        and asked.verb in rule["verbs"]
        and asked.name in rule.get("resourceNames", [asked.name])
        for role in given
        for rule in role["rules"]
    )
