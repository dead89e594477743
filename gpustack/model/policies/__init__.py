"""Policies by name: in which order nodes and cards are tried.

- `exact`: the model's own objective (`card_set_search`), the default;
- `original`: the evaluators of gpu-manager, with ties to the lowest minor;
- `spread`: the emptiest node and card first;
- `fgd`: least growth of fragmentation under a workload.

Read `base` first.
"""

from typing import Final

from gpustack.model.policies.base import Policy
from gpustack.model.policies.fgd import Fgd
from gpustack.model.policies.fragmentation import NOTHING_KNOWN, Workload
from gpustack.model.policies.original import Original
from gpustack.model.policies.spread import Spread

__all__ = ["EXACT", "NAMES", "Fgd", "Original", "Policy", "Spread", "named"]

EXACT: Final = Policy()
_KINDS: Final = {kind.name: kind for kind in (Policy, Original, Spread, Fgd)}
NAMES: Final = tuple(_KINDS)


def named(name: str, workload: Workload = NOTHING_KNOWN) -> Policy:
    """Return the policy of this name; `workload` is what `fgd` measures by.

    Raises:
        KeyError: no such policy.
    """
    return Fgd(workload) if name == Fgd.name else _KINDS[name]()
