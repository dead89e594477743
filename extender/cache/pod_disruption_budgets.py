"""The PodDisruptionBudgets as the watch shows them.

Without them (an old cluster role doesn't allow the watch) every pod may be ended, and preemption
still works; so nothing waits for their first list.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from gpustack.wire.kube import managed_fields
from gpustack.wire.kube.pod_disruption_budget import Budget, decode_budget

_ANY: Final = msgspec.json.Decoder(dict[str, Any])
_LONGEST_SELECTOR: Final = 16 << 10  # bytes as JSON; an object of the API may have a megabyte
_MOST_MEMBERS: Final = 128  # of a selector; of a character each they would take thirty times that


def read_budget(raw: bytes | msgspec.Raw) -> Budget:
    """Read a PodDisruptionBudget as the API server sends it, without an endless selector.

    Any tenant may make budgets, and all of them are kept.
    """
    value = managed_fields.decode(_ANY, raw)
    spec = value.get("spec") or {}
    text = msgspec.json.encode(spec.get("selector"))
    if len(text) > _LONGEST_SELECTOR or text.count(b",") >= _MOST_MEMBERS:
        return replace(decode_budget({**value, "spec": {}}), endless=True)
    return decode_budget(value)


class PodDisruptionBudgets:
    """All namespaces' budgets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._budgets: dict[tuple[str, str], Budget] = {}

    def sync(self, budgets: Sequence[Budget]) -> None:
        """Replace all."""
        with self._lock:
            self._budgets = {(each.namespace, each.name): each for each in budgets}

    def event(self, kind: str, budget: Budget) -> None:
        """Take one change."""
        with self._lock:
            if kind == "DELETED":
                self._budgets.pop((budget.namespace, budget.name), None)
            else:
                self._budgets[budget.namespace, budget.name] = budget

    @property
    def now(self) -> tuple[Budget, ...]:
        """The budgets in force."""
        with self._lock:
            return tuple(self._budgets.values())
