"""The PodDisruptionBudgets as the watch shows them.

Without them (an old cluster role doesn't allow the watch) every pod may be ended, and preemption
still works; so nothing waits for their first list.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from gpustack.wire.kube import managed_fields
from gpustack.wire.kube.pod_disruption_budget import Budget, Budgets, decode_budget

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
    """All namespaces' budgets.

    Attributes:
        now: the budgets in force.
    """

    def __init__(self) -> None:
        self.now = Budgets()

    def sync(self, budgets: Sequence[Budget]) -> None:
        """Replace all."""
        self.now = Budgets(budgets)

    def event(self, kind: str, budget: Budget) -> None:
        """Take one change."""
        if kind == "DELETED":
            self.now.drop(budget)
        else:
            self.now.put(budget)
