"""The machines of the cluster, and whether a pod finds cards on one, by trying every way."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.extender.stateful.pods import CORES, KEYS, Asked, annotations, asked
from tests.fakes.kube_store import KubeObject

A100 = "NVIDIA-A100-SXM4-80GB"
A40 = "NVIDIA-A40"
UNITS = {A100: 320, A40: 192}  # of 256 MiB
# The models of a name in a quota or an annotation.
MEANS = {"A100": {A100}, "A40": {A40}, "NVIDIA": {A100, A40}, A40: {A40}, "": {A100, A40}}

Free = Mapping[int, tuple[int, int]]  # cores and units by minor
Way = tuple[tuple[int, int], ...]  # minor and cores of each container's part


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A node at one version: each card's model and health, and the pool."""

    models: Sequence[str] = ()
    well: Sequence[bool] = ()
    pool: str = ""

    def amounts(self, taken: Mapping[int, int]) -> Counter[str]:
        """Hundredths by model; the model of a card that the node lacks is unknown."""
        found: Counter[str] = Counter()
        for minor, cores in taken.items():
            if minor < len(self.models):
                found[self.models[minor]] += cores
        return found


class Hosts:
    """Every node's history: its state from each version on."""

    def __init__(self) -> None:
        self._history: dict[str, list[tuple[int, Host]]] = {}

    def set(self, name: str, version: int, host: Host) -> None:
        """Set a node's state from a version on; a node without cards is gone."""
        self._history.setdefault(name, []).append((version, host))

    @property
    def names(self) -> list[str]:
        """The present nodes."""
        return sorted(name for name in self._history if self.now(name).models)

    def at(self, name: str, version: int) -> Host:
        """A node's state at a version."""
        found = Host()
        for since, host in self._history.get(name, ()):
            if since <= version:
                found = host
        return found

    def now(self, name: str) -> Host:
        """A node's state now."""
        return self._history[name][-1][1] if name in self._history else Host()


def ways(pod: KubeObject, name: str, host: Host, taken: Mapping[Any, int]) -> Iterator[Way]:
    """Yield every way to give a pod cards of a node beside what is ``taken`` of it."""
    accepted = MEANS[annotations(pod).get(KEYS.gpu_model, "")]
    free = {}
    for minor, (model, well) in enumerate(zip(host.models, host.well, strict=True)):
        cores, units = (taken.get(((name, minor), which), 0) for which in (0, 1))
        if well and model in accepted:
            free[minor] = CORES - cores, UNITS[model] - units
    return _ways(sorted(asked(pod), key=lambda each: -each[1]), free)


def _ways(wanted: Sequence[Asked], free: Free) -> Iterator[Way]:
    """Yield the ways for all these containers; containers with whole cards come first."""
    if not wanted:
        yield ()
        return
    _, cores, units = wanted[0]
    if cores >= CORES:
        idle = [minor for minor, each in free.items() if each[0] == CORES]
        for chosen in itertools.combinations(idle, cores // CORES):
            left = {minor: each for minor, each in free.items() if minor not in chosen}
            part = tuple((minor, CORES) for minor in chosen)
            yield from (part + rest for rest in _ways(wanted[1:], left))
        return
    for minor, each in free.items():
        if each[0] >= cores and each[1] >= units:
            left = {**free, minor: (each[0] - cores, each[1] - units)}
            yield from (((minor, cores), *rest) for rest in _ways(wanted[1:], left))


def add(total: "Counter[Any]", taken: Mapping[Any, tuple[int, int]]) -> None:
    """Add a holder's cards to a total: ``(card, 0)`` are cores, ``(card, 1)`` units."""
    for card, use in taken.items():
        for which in (0, 1):
            total[card, which] += use[which]
