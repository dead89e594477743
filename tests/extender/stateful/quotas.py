"""The quotas of the test's namespaces, and the amounts that a quota allows."""

from collections import Counter
from collections.abc import Mapping

from tests.extender.stateful.hosts import MEANS, Host
from tests.fakes.kube_store import KubeObject

FREE = "default"  # no quota names it
LIMITED = "limited"
POOLED = "pooled"
NAMESPACES = (FREE, LIMITED, POOLED)


def quota(
    limited: Mapping[str, float], pooled: Mapping[str, float] | None = None, *pools: str
) -> KubeObject:
    """The data of a ConfigMap for both namespaces, or for the first alone."""
    found: KubeObject = {LIMITED: {"quota": dict(limited), "pool": []}}
    if pooled is not None:
        found[POOLED] = {"quota": dict(pooled), "pool": list(pools)}
    return found


QUOTAS: list[KubeObject | str | None] = [
    None,
    "broken",
    quota({"A100": 0.3}),
    quota({"A100": 1, "A40": 1}, {"A100": 2}, "west"),
    quota({"A100": 2.5}, {"A40": 0.7}),
    quota({"A100": 0.6, "A40": 0.6}, {"NVIDIA": 1.4}, "east"),
    quota({"NVIDIA": 1.5, "A40": 1}, {"A100": 1, "A40": 1}, "east", "west"),
]


class Limit:
    """The limit of one namespace; ``said`` is the whole quota, None without one."""

    def __init__(self, said: KubeObject | None, namespace: str) -> None:
        self._limit = None if said is None else said.get(namespace)

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return self._limit is not None

    def problem(self, host: Host, more: Counter[str], used: Counter[str]) -> str:
        """Why the limit refuses these hundredths of a host's models beside those used; or empty."""
        if self._limit is None:
            return ""
        if self._limit["pool"] and host.pool not in self._limit["pool"]:
            return f"pool {host.pool!r} is not in {self._limit['pool']}"
        names: Mapping[str, float] = self._limit["quota"]
        for model in +more:
            if not any(model in MEANS[name] for name in names):
                return f"model {model} is not in {names}"
        for name, most in names.items():
            wanted, held = (
                sum(each[model] for model in sorted(MEANS[name])) for each in (more, used)
            )
            if wanted and held + wanted > round(most * 100):
                return f"{name}: {held} used and {wanted} more of {most}"
        return ""
