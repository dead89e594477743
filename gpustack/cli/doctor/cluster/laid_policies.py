"""The admission policies as this release's role cluster_objects lays them.

Their expressions hold a site's names, so a policy is known by the names of its variables and by how
many rules it has; a test compares both with the role's templates.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class LaidPolicy:
    """What no site's settings change of a policy.

    Attributes:
        variables: their names, in order.
        validations: how many it has.
    """

    variables: tuple[str, ...]
    validations: int


LAID: Final = MappingProxyType(
    {
        "gpustack-decisions": LaidPolicy(
            (
                "after", "before", "written", "removed", "many", "changed", "containers", "gpu",
                "trusted", "agent",
            ),
            2,
        ),
        "gpustack-extender": LaidPolicy(
            ("binds", "annotates", "after", "before", "many", "foreign"), 8
        ),
        "gpustack-nodes": LaidPolicy(("after", "before"), 1),
        "gpustack-requests": LaidPolicy(
            (
                "containers", "named", "tooMany", "judged", "gpu", "node", "mirror", "placed",
                "astray", "fraction", "coreOnly", "memoryOnly", "oversized", "shares", "mounts",
                "hiding", "hidingDevice", "message",
            ),
            11,
        ),
        "gpustack-tokens": LaidPolicy(("bound",), 2),
        "gpustack-user-keys": LaidPolicy(
            (
                "after", "before", "changed", "containers", "gpu", "judged", "long", "many",
                "short", "placement", "parts",
            ),
            8,
        ),
    }
)  # fmt: skip
"""By name."""
