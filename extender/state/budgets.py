"""The PodDisruptionBudgets as the watch shows them.

Without them (an old cluster role doesn't allow the watch) every pod may be ended, and preemption
still works; so nothing waits for their first list.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gpustack.wire.disruption import Budget, decode_budget

_ANY: Final = msgspec.json.Decoder(dict[str, Any])


def read_budget(raw: bytes | msgspec.Raw) -> Budget:
    """Read a PodDisruptionBudget as the API server sends it."""
    return decode_budget(_ANY.decode(raw))


class Budgets:
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
