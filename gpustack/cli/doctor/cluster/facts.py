"""What the checks of a cluster are about, as values."""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpustack.model.cluster.eligibility import Host
from gpustack.model.node import Node
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire.annotations import BadAnnotation, annotations_of
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.keys import Keys
from gpustack.wire.kube.eligibility import parse_host
from gpustack.wire.kube.quantities import parse_whole
from gpustack.wire.nodes import decode_node

VERSION: Final = "version"
NODES: Final = "nodes"
PODS: Final = "pods"
QUOTA: Final = "quota"
POLICIES: Final = "policies"
LEASES: Final = "leases"
TRIALS: Final = "trials"

GPU_LABEL: Final = "nvidia-device-enable"
"""The label that site.yml lays on the nodes of GPU hosts, with the value `enable`."""

_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})[.+-]?.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNode:
    """A node that has cards, or should have.

    Attributes:
        name: the node's.
        host: its labels and taints.
        record: the agent's annotation; None where there is none.
        node: what the record says; None where there is none, or it can't be read.
        problem: why the record can't be read.
        cores: the allocatable amount of vcuda-core; None where it is no whole number.
        memory_units: that of vcuda-memory.
        allocatable: all of its allocatable amounts.
    """

    name: str
    host: Host
    record: str | None
    node: Node | None
    problem: str
    cores: int | None
    memory_units: int | None
    allocatable: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease by which schedulers elect their leader.

    Attributes:
        name: the lease's.
        holder: who leads; empty for none.
        renewed: when it was renewed last; None where the text is no moment.
        seconds: for how long a renewal holds.
    """

    name: str
    holder: str
    renewed: datetime.datetime | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """A ValidatingAdmissionPolicy.

    Attributes:
        variables: their names, in order.
        validations: how many it has.
        refuses: whether an error of the policy refuses the request.
    """

    variables: tuple[str, ...]
    validations: int
    refuses: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicies:
    """The policies of a cluster by name, and by name what their bindings do.

    Attributes:
        served: whether the API server has such policies.
        policies: those that are there.
        denying: the names of the policies that a binding denies by.
    """

    served: bool = True
    policies: Mapping[str, AdmissionPolicy] = field(default_factory=dict)
    denying: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialKind:
    """A kind of trial pod.

    Attributes:
        name: as the output has it.
        cores: its limit of vcuda-core.
        memory_units: its limit of vcuda-memory; none where zero.
    """

    name: str
    cores: int
    memory_units: int

    def limits(self, keys: Keys) -> dict[str, str]:
        """Return the limits of the pod's container."""
        memory = {keys.vcuda_memory: str(self.memory_units)} if self.memory_units else {}
        return {keys.vcuda_core: str(self.cores), **memory}


SHARE: Final = TrialKind(name="share", cores=10, memory_units=4)
WHOLE_CARD: Final = TrialKind(name="whole card", cores=CORES_PER_CARD, memory_units=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A pod that was run, or should have been.

    Attributes:
        node: the name of the node that it was for.
        kind: what it asked for.
        problem: why none could be made; empty where one was.
        room: whether there was room for one; without it none was made, and `problem` says why.
        pod: as the API server had it last.
        printed: the beginning of what it printed.
    """

    node: str
    kind: TrialKind
    problem: str = ""
    room: bool = True
    pod: Mapping[str, Any] | None = None
    printed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """A cluster at one moment.

    Attributes:
        keys: of its resources and annotations.
        now: the moment.
        snapshot: its nodes, pods and quota.
        gpu_nodes: those with cards, by name.
        version: of the API server, as it says it.
        policies: the admission policies.
        leases: of the schedulers.
        trials: the pods that were run.
        unread: why an input can't be read, by its name.
        absent: why an input isn't looked at, by its name.
    """

    keys: Keys
    now: datetime.datetime
    snapshot: Snapshot
    gpu_nodes: tuple[GpuNode, ...] = ()
    version: str = ""
    policies: AdmissionPolicies = field(default_factory=AdmissionPolicies)
    leases: tuple[Lease, ...] = ()
    trials: tuple[Trial, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def unread_mend(self) -> str:
        """What helps where an input can't be read."""
        return "kubectl get --raw /readyz; name an identity that may read it with --kubeconfig"


def gpu_nodes(keys: Keys, snapshot: Snapshot) -> tuple[GpuNode, ...]:
    """Return the nodes with our label, a record of cards or an amount of them, by name."""
    found = (_gpu_node(keys, snapshot, item) for item in snapshot.nodes)
    return tuple(sorted((each for each in found if each is not None), key=lambda each: each.name))


def _gpu_node(keys: Keys, snapshot: Snapshot, item: Mapping[str, Any]) -> GpuNode | None:
    record = annotations_of(item).get(keys.gpu_devices)
    allocatable = (item.get("status") or {}).get("allocatable") or {}
    cores = _amount(allocatable, keys.vcuda_core)
    host = parse_host(item)
    if record is None and cores == 0 and host.labels.get(GPU_LABEL) != "enable":
        return None
    node, problem = None, ""
    try:
        node = None if record is None else decode_node(keys, item, snapshot.names.labels)
    except BadAnnotation as error:
        problem = str(error)
    return GpuNode(
        name=item["metadata"]["name"],
        host=host,
        record=record,
        node=node,
        problem=problem,
        cores=cores,
        memory_units=_amount(allocatable, keys.vcuda_memory),
        allocatable=allocatable,
    )


def _amount(allocatable: Mapping[str, Any], name: str) -> int | None:
    try:
        return parse_whole(allocatable.get(name, 0))
    except ValueError:
        return None


def parse_version(text: str) -> tuple[int, int] | None:
    """Return major and minor of a version of Kubernetes; None where the text is none."""
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def parse_lease(name: str, value: object) -> Lease:
    """Return a Lease of the API; what it lacks is empty."""
    spec = _member(value, "spec")
    seconds = spec.get("leaseDurationSeconds")
    return Lease(
        name=name,
        holder=str(spec.get("holderIdentity") or ""),
        renewed=_moment(spec.get("renewTime")),
        seconds=float(seconds) if isinstance(seconds, int) else 0.0,
    )


def _moment(value: object) -> datetime.datetime | None:
    try:
        found = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def parse_policies(policies: object, bindings: object) -> AdmissionPolicies:
    """Return the lists of policies and bindings as values."""
    return AdmissionPolicies(
        policies={_name(each): _policy(_member(each, "spec")) for each in _items(policies)},
        denying=frozenset(
            str(spec.get("policyName"))
            for each in _items(bindings)
            if "Deny" in _list((spec := _member(each, "spec")).get("validationActions"))
        ),
    )


def _policy(spec: Mapping[str, Any]) -> AdmissionPolicy:
    names = (each.get("name") for each in _list(spec.get("variables")) if isinstance(each, dict))
    return AdmissionPolicy(
        variables=tuple(map(str, names)),
        validations=len(_list(spec.get("validations"))),
        refuses=spec.get("failurePolicy", "Fail") == "Fail",
    )


def _items(value: object) -> Iterator[object]:
    yield from _list(value.get("items") if isinstance(value, dict) else None)


def _name(item: object) -> str:
    return str(_member(item, "metadata").get("name"))


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _member(value: object, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
