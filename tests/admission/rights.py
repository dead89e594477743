"""Who may write what: each account, call and field, and what becomes of it.

The verdicts are checked against a real API server (`test_rights.py`) and printed in
docs/security.md (`python -m tests.docs.tables`). A call is refused by the *rights* of its account
(RBAC, and the rules for nodes), or by one of the role's policies, which the cell names by the end
of its name (where two refuse it, either of them answers); *kept* is a call that the API server
grants without changing that field, and *invalid* one that it grants to nobody.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.admission.site import MIRROR, POOL
from tests.control_plane.fleet import KEYS
from tests.scheduling.cluster import container

Json = dict[str, Any]

ACCOUNTS: Final = {
    "tenant": "edits its own namespace (ClusterRole `edit`)",
    "extender": "`gpustack-extender`",
    "own node": "the kubelet, and the agent, of the pod's node",
    "other node": "those of another node",
    "placer": "all rights, and listed in `cluster_objects_node_name_accounts`",
    "trusted": "all rights, and listed in `cluster_objects_trusted_accounts`, as gpu-admission is",
    "administrator": "all rights",
}
DECISION_KEYS: Final = (
    KEYS.predicate_node,
    KEYS.predicate_time,
    f"{KEYS.idx_prefix}0",
    f"{KEYS.uuid_prefix}0",
    KEYS.gpu_assigned,
    KEYS.gpu_retry,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """A call that would set a field.

    Attributes:
        target: the object, as the table names it: a pod that waits is on no node yet.
        verb: create, update (PUT), patch.
        field: as the table names it.
        change: what the field gets, as the part of the object that holds it.
        verdicts: of each account.
    """

    target: str
    verb: str
    field: str
    change: Json
    verdicts: Mapping[str, str]


def _annotated(*keys: str, value: str = "1") -> Json:
    return {"metadata": {"annotations": dict.fromkeys(keys, value)}}


_FOREIGN: Final = _annotated("example.org/any")
_LABEL: Final = {"metadata": {"labels": {"example.org/any": "1"}}}
_FINALIZER: Final = {"metadata": {"finalizers": ["example.org/any"]}}
_IMAGE: Final = {"spec": {"containers": [container("main", 50, 32) | {"image": "evil"}]}}
_PLACED: Final = {"spec": {"nodeName": "gpu1"}}
_MOVED: Final = {"spec": {"nodeName": "gpu2"}}
_POOLED: Final = {"metadata": {"labels": {POOL: "inference"}}}
_CARDS: Final = _annotated(KEYS.gpu_devices, value="{}")
_FAILED: Final = {"status": {"phase": "Failed"}}
_CAPACITY: Final = {"status": {"capacity": {"example.org/any": "1"}}}
_BAD_CHOICE: Final = _annotated(KEYS.gpu_model, value=",")
_CHOICE: Final = _annotated(KEYS.gpu_model, value="A100")
_MIRRORED: Final = {**_PLACED, **_annotated(MIRROR, value="abc")}

_Field = tuple[str, Json, Mapping[str, str]]
_YES: Final = "yes"


def _all(verdict: str) -> dict[str, str]:
    """Return one verdict for the accounts with all rights."""
    return dict.fromkeys(("placer", "trusted", "administrator"), verdict)


def _by(**others: str) -> dict[str, str]:
    """Return the verdicts of a call: without all rights an account has none, but for `others`."""
    named = {name.replace("_", " "): verdict for name, verdict in others.items()}
    return dict.fromkeys(ACCOUNTS, "rights") | _all(_YES) | named


def _decisions(**others: str) -> list[_Field]:
    """Return the calls that write a decision: of the accounts with all rights `trusted` may."""
    refused = dict.fromkeys(("placer", "administrator"), "decisions")
    verdicts = _by(**others) | refused
    return [
        (f"annotation `{key.partition('/')[2]}`", _annotated(key), verdicts)
        for key in DECISION_KEYS
    ]


def _unreadable(**others: str) -> _Field:
    """Return the call that writes a user key of no meaning, which no account may."""
    return ("an unreadable user key", _BAD_CHOICE, _by(**others) | _all("user-keys"))


def _pods_made() -> Iterator[_Field]:
    placed = dict.fromkeys(("tenant", "trusted", "administrator"), "requests")
    yield "a share", {}, _by(tenant=_YES)
    yield from _decisions(tenant="decisions")
    yield "a user key", _CHOICE, _by(tenant=_YES)
    yield _unreadable(tenant="user-keys")
    yield "`spec.nodeName`", _PLACED, _by() | placed
    yield "a mirror pod", _MIRRORED, _by(own_node=_YES) | placed


def _pods_changed() -> Iterator[_Field]:
    yield from _decisions(tenant="decisions")
    yield _unreadable(tenant="user-keys")
    for field, change in (
        ("another annotation", _FOREIGN),
        ("labels", _LABEL),
        ("finalizers", _FINALIZER),
        ("an image", _IMAGE),
    ):
        yield field, change, _by(tenant=_YES)
    yield "`spec.nodeName`", _MOVED, _by(tenant="invalid") | _all("invalid")


def _status_changed(*, bound: bool, patched: bool) -> Iterator[_Field]:
    """The agent writes the status of its own node's pods, and the extender patches any pod's."""
    node = {"own_node": _YES} if bound else {}
    yield from _decisions(**node, **({"extender": _YES} if patched else {}))
    foreign = {"extender": "extender"} if patched else {}
    unread = {"extender": "extender, user-keys"} if patched else {}
    yield _unreadable(**({"own_node": "user-keys"} if bound else {}), **unread)
    for field, change in (("another annotation", _FOREIGN), ("finalizers", _FINALIZER)):
        yield field, change, _by(**node, **foreign)
    yield "`status`", _FAILED, _by(**node, **foreign)
    yield "labels", _LABEL, _by(**foreign)
    kept = dict.fromkeys([*node, *foreign], "kept")
    yield "an image", _IMAGE, _by(**kept) | _all("kept")


def _bound(**extender: str) -> Iterator[_Field]:
    """The extender binds through the pod's subresource alone."""
    foreign = dict.fromkeys(extender, "extender")
    yield "the node", {}, _by(**extender)
    yield from _decisions(**extender)
    yield "another annotation", _FOREIGN, _by(**foreign)
    yield "labels", _LABEL, _by(**foreign)


def _nodes_changed(part: str) -> Iterator[_Field]:
    yield "annotation `gpu-devices`", _CARDS, _by(own_node=_YES)
    yield "the pool's label", _POOLED, _by(own_node="nodes")
    yield "another label", _LABEL, _by(own_node=_YES)
    if part:
        yield "`status.capacity`", _CAPACITY, _by(own_node=_YES)


def _calls() -> Iterator[tuple[str, str, Iterator[_Field]]]:
    """Yield each object and verb with its fields."""
    yield "pods", "create", _pods_made()
    for verb, place in itertools.product(("update", "patch"), ("waiting", "bound")):
        yield f"pods, {place}", verb, _pods_changed()
        status = _status_changed(bound=place == "bound", patched=verb == "patch")
        yield f"pods/status, {place}", verb, status
    yield "pods/binding", "create", _bound(extender=_YES)
    yield "bindings", "create", _bound()
    made: list[_Field] = [
        ("the pool's label", _POOLED, _by(own_node="nodes")),
        ("a node of its name", {}, _by(own_node=_YES)),
    ]
    yield "nodes", "create", iter(made)
    for verb, part in itertools.product(("update", "patch"), ("", "/status")):
        yield f"nodes{part}", verb, _nodes_changed(part)
    everybody = dict.fromkeys(ACCOUNTS, _YES)
    yield "events", "create", iter([("an event", {}, everybody)])
    for verb in ("create", "update", "patch"):
        yield "configmaps, quota", verb, iter([("the quota", {}, _by())])


CALLS: Final = tuple(
    Call(target=target, verb=verb, field=field, change=change, verdicts=verdicts)
    for target, verb, fields in _calls()
    for field, change, verdicts in fields
)


def table() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: what has one verdict for every account stands in one row."""
    merged: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for call in CALLS:
        field = call.field
        if field.startswith("annotation `predicate-") or "`gpu-assigned`" in field:
            field = "the decision"
        field = "the decision" if "`gpu-retry`" in field else field
        verdicts = tuple(call.verdicts[account] for account in ACCOUNTS)
        verbs = merged.setdefault((call.target, field, verdicts), [])
        verbs.extend([call.verb] if call.verb not in verbs else [])
    places: dict[tuple[str, ...], list[str]] = {}
    for (target, field, verdicts), verbs in merged.items():
        kind, _, place = target.partition(", ")
        places.setdefault((kind, ", ".join(verbs), field, *verdicts), []).append(place)
    for (kind, *cells), found in places.items():
        yield f"{kind}, {' or '.join(found)}" if found[0] else kind, *cells
