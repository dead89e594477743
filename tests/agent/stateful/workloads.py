"""The pods of the node: what they ask, what was decided for them, and how far they have come."""

import copy
import dataclasses
import enum
from typing import Any, Final

from tests.agent.host import Pod, container, decision, make_pod
from tests.agent.stateful.node import MINORS

_UNITS: Final = 320  # of 80 GiB


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A kind of pod: so many containers with so much of a card each."""

    cores: int
    memory: int
    containers: int = 1
    with_init: bool = False
    is_static: bool = False


# Pods of one shape can be taken for each other: there are few.
SHAPES: Final = (
    Shape(cores=50, memory=32),
    Shape(cores=25, memory=32),
    Shape(cores=100, memory=0),
    Shape(cores=25, memory=32, containers=2),
    Shape(cores=25, memory=32, with_init=True),
    Shape(cores=25, memory=32, is_static=True),
)


class Phase(enum.Enum):
    """How far a pod has come on its kubelet."""

    WAITING = enum.auto()
    ADMITTED = enum.auto()
    STARTED = enum.auto()
    ENDED = enum.auto()


@dataclasses.dataclass(slots=True, kw_only=True)
class Workload:
    """One pod.

    Attributes:
        pod: as its kubelet knows it.
        mirror: as the API server has it; the same but for static pods.
        minors: the decided card of each of its containers.
        excuse: why it may fail through no fault of the agent's; empty: it must not.
        was_rejected: whether its kubelet did that.
        running: the runtime's ID of each running container, by its name.
    """

    shape: Shape
    pod: Pod
    mirror: Pod
    minors: tuple[int, ...]
    phase: Phase = Phase.WAITING
    excuse: str = ""
    was_rejected: bool = False
    running: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def order(self) -> list[str]:
        """Its containers in the order of their start."""
        spec = self.pod["spec"]
        return [each["name"] for each in (*spec["initContainers"], *spec["containers"])]

    def card_of(self, name: str) -> int:
        """Return the decided card of a container."""
        return self.minors[int(name[1:]) if name.startswith("c") else 0]

    def takes(self, minor: int) -> tuple[int, int]:
        """Return what its containers take of a card: cores and units of memory."""
        count = self.minors.count(minor)
        memory = self.shape.memory or _UNITS
        return count * self.shape.cores, count * memory


def choose(shape: Shape, first: int, others: list[Workload]) -> tuple[int, ...] | None:
    """Choose cards as a scheduler does, beginning at one; None where there is no room."""
    free = {}
    for minor in MINORS:
        taken = [each.takes(minor) for each in others]
        free[minor] = [100 - sum(cores for cores, _ in taken), _UNITS - sum(m for _, m in taken)]
    chosen: list[int] = []
    for index in range(shape.containers):
        fits = [
            minor
            for at in range(len(MINORS))
            if free[minor := MINORS[(first + index + at) % len(MINORS)]][0] >= shape.cores
            and free[minor][1] >= (shape.memory or _UNITS)
        ]
        if not fits:
            return None
        chosen.append(fits[0])
        free[fits[0]][0] -= shape.cores
        free[fits[0]][1] -= shape.memory or _UNITS
    return tuple(chosen)


def build(shape: Shape, name: str, number: int, minors: tuple[int, ...]) -> tuple[Pod, str]:
    """Return a pod for the API server, and the UID by which its kubelet knows it."""
    written = decision(
        *((minor,) for minor in minors), cores=shape.cores, memory=shape.memory, now_ns=number
    )
    uid = f"uid-{number}"
    if shape.is_static:
        uid = f"{number:032x}"
        written |= {"kubernetes.io/config.mirror": uid, "kubernetes.io/config.hash": uid}
    init = (container("i0", shape.cores, shape.memory),) if shape.with_init else ()
    containers = [
        container(f"c{index}", shape.cores, shape.memory) for index in range(shape.containers)
    ]
    pod = make_pod(name, *containers, init=init, annotations=written)
    pod["metadata"]["uid"] = f"mirror-{number}" if shape.is_static else uid
    hours, rest = divmod(number, 3600)
    pod["metadata"]["creationTimestamp"] = (
        f"2026-01-01T{hours % 24:02d}:{rest // 60:02d}:{rest % 60:02d}Z"
    )
    return pod, uid


def known_by_kubelet(mirror: Pod, uid: str) -> Pod:
    """Return a pod as its kubelet knows it."""
    pod: Any = copy.deepcopy(mirror)
    pod["metadata"]["uid"] = uid
    return dict(pod)
