"""PodDisruptionBudgets (policy/v1): how many pods of an application may be ended on purpose.

Counted as kube-scheduler's preemption counts (`filterPodsWithPDBViolation`), because it compares
our numbers with its own: from the most important pod of a node on, each pod takes one off every
budget that selects it, and the pods that come after a budget is used up violate it. A budget
without a selector selects nothing there, unlike for evictions.

Any tenant may make budgets by the hundred thousand, and all are kept: a selector stays the text
that it is in the API, for as Python's objects its labels take sixteen times as much. A namespace
with more of them than can be looked at for each pod in a question's time protects all its pods.
"""

import collections
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from gpustack.model.cluster.eligibility import Operator, Requirement
from gpustack.model.lru import remembered

_PARTS: Final = 16  # what is read of a selector takes so many times its bytes
# Of a namespace, with the selectors: 600 budgets of usual selectors, 2 ms a pod.
_MOST_BYTES: Final = 64 << 10
_BUDGET_BYTES: Final = 64
# Of the selectors of pods; node affinity has more.
_OPERATORS: Final = frozenset(
    {Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST}
)


class Labelled(Protocol):
    """The fields of a pod that a budget reads."""

    @property
    def uid(self) -> str:
        """Its UID."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def labels(self) -> Mapping[str, str] | None:
        """Its labels; None where they were too long to be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one PodDisruptionBudget allows now.

    Attributes:
        namespace: the namespace of the pods that it selects.
        name: its name.
        selector: of pods, as JSON; empty: it selects no pod.
        allowed: how many of its pods may end.
        ending: names of pods that are counted as ended already.
        endless: its selector was too long to be kept.
    """

    namespace: str
    name: str
    selector: bytes
    allowed: int
    ending: frozenset[str]
    endless: bool = False

    @property
    def selects(self) -> tuple[Requirement, ...]:
        """What a pod's labels must meet; empty: it selects no pod."""
        return _remembered_requirements(self.selector) if self.selector else ()

    def may_cover(self, pod: Labelled, labels: Mapping[str, str] | None) -> bool:
        """Say whether this pod's end takes one off what is allowed.

        It might where a text of either is too long. ``labels`` are the pod's, which are read from a
        text of up to 16 KiB each time that the pod is asked for them.
        """
        if not self._counts(pod):
            return False
        if labels is None or self.endless:
            return self.endless or bool(self.selector)
        return bool(self.selector) and all(each.met(labels) for each in self.selects)

    def _counts(self, pod: Labelled) -> bool:
        return pod.namespace == self.namespace and pod.name not in self.ending


def decode_budget(value: Mapping[str, Any]) -> Budget:
    """Read a PodDisruptionBudget of the API.

    One whose selector has an unknown operator selects nothing, as in the scheduler.
    """
    metadata, status = value["metadata"], value.get("status") or {}
    selector = (value.get("spec") or {}).get("selector") or {}
    expressions = selector.get("matchExpressions") or ()
    known = all(each.get("operator") in _OPERATORS for each in expressions)
    selects = known and bool(expressions or selector.get("matchLabels"))
    return Budget(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        selector=msgspec.json.encode(selector) if selects else b"",
        allowed=int(status.get("disruptionsAllowed") or 0),
        ending=frozenset(status.get("disruptedPods") or ()),
    )


def _requirements(text: bytes) -> tuple[Requirement, ...]:
    selector: Mapping[str, Any] = msgspec.json.decode(text)
    labels = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    return (
        *(Requirement(key=key, operator=Operator.IN, values=(each,)) for key, each in labels),
        *(
            Requirement(
                key=each.get("key", ""),
                operator=Operator(each["operator"]),
                values=tuple(each.get("values") or ()),
            )
            for each in expressions
        ),
    )


_remembered_requirements = remembered(16 << 20, lambda text: 512 + _PARTS * len(text))(
    _requirements
)


class Budgets:
    """The budgets by namespace. Safe from any thread.

    A question looks at those of the pods that it may end, whatever others there are.
    """

    def __init__(self, budgets: Iterable[Budget] = ()) -> None:
        """Begin with these."""
        self._lock = threading.Lock()
        self._by_namespace: dict[str, dict[str, Budget]] = {}
        self._bytes: collections.Counter[str] = collections.Counter()
        for each in budgets:
            self.put(each)

    def __len__(self) -> int:
        return sum(map(len, self._by_namespace.values()))

    def put(self, budget: Budget) -> None:
        """Take a budget, in place of the one of its name."""
        self.drop(budget)
        with self._lock:
            self._by_namespace.setdefault(budget.namespace, {})[budget.name] = budget
            self._bytes[budget.namespace] += _size_bytes(budget)

    def drop(self, budget: Budget) -> None:
        """Forget the budget of this name, if there is one."""
        with self._lock:
            theirs = self._by_namespace.get(budget.namespace, {})
            known = theirs.pop(budget.name, None)
            if known is None:
                return
            self._bytes[budget.namespace] -= _size_bytes(known)
            if not theirs:
                del self._by_namespace[budget.namespace], self._bytes[budget.namespace]

    def of(self, namespace: str) -> Sequence[Budget] | None:
        """Return a namespace's; None where they are more than can be looked at for each pod."""
        with self._lock:
            if self._bytes[namespace] > _MOST_BYTES:
                return None
            return tuple(self._by_namespace.get(namespace, {}).values())


def _size_bytes(budget: Budget) -> int:
    return _BUDGET_BYTES + len(budget.selector)


def violating(
    pods: Collection[Labelled], budgets: Budgets, go_on: Callable[[], None] = lambda: None
) -> frozenset[str]:
    """Return the UIDs of the pods that no budget of theirs allows to end.

    Args:
        pods: every pod of a node that could be ended, the most important first.
        budgets: of all namespaces.
        go_on: is asked before each pod, for a tenant may have hundreds of budgets; may raise.
    """
    theirs = {namespace: budgets.of(namespace) for namespace in {pod.namespace for pod in pods}}
    left = {id(each): each.allowed for some in theirs.values() for each in some or ()}
    found: set[str] = set()
    for pod in pods:
        go_on()
        labels = pod.labels
        if labels == {}:  # the scheduler skips such a pod, even where a selector would take it
            continue
        some = theirs[pod.namespace]
        if some is None:
            found.add(pod.uid)
            continue
        for budget in some:
            if budget.may_cover(pod, labels):
                left[id(budget)] -= 1
                if left[id(budget)] < 0:
                    found.add(pod.uid)
    return frozenset(found)
