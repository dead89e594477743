"""The output of ``replay``: policies side by side, for people and as its schema says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpustack.model.cluster import replay
from gpustack.model.cluster.replay import Moment, Run
from gpustack.model.policies import fragmentation
from gpustack.model.policies.fragmentation import Workload
from gpustack.model.units import CORES_PER_CARD

Table = list[Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The runs of a trace by policy.

    Attributes:
        cores: hundredths of all healthy cards.
        memory_units: of all healthy cards.
        workload: the requests by which fragmentation is measured.
        runs: by policy.
        end: the last moment of the table: the last arrival, because the cluster only empties
            afterwards; where all pods arrive at once, the last departure.
    """

    cores: int
    memory_units: int
    workload: Workload
    runs: Mapping[str, Run]
    end: float

    def times(self, points: int) -> list[float]:
        """Return evenly spaced moments from the first one to the end."""
        begin = min(run.moments[0].at for run in self.runs.values())
        steps = max(1, points - 1)
        return [begin + (self.end - begin) * step / steps for step in range(points)]

    def utilisation(self, moment: Moment) -> float:
        """Return the part of all compute that is allocated."""
        return moment.load.cores / self.cores if self.cores else 0.0

    def memory_utilisation(self, moment: Moment) -> float:
        """Return the part of all memory that is allocated."""
        return moment.load.memory_units / self.memory_units if self.memory_units else 0.0

    def fragmented_cards(self, moment: Moment) -> float:
        """Return how many cards' worth of free compute can't serve what is asked, on average."""
        return fragmentation.ratio(moment.load.fragmented, self.workload)

    def fragmentation(self, moment: Moment) -> float:
        """Return the part of the free compute that is fragmented."""
        free = (self.cores - moment.load.cores) / CORES_PER_CARD
        return self.fragmented_cards(moment) / free if free else 0.0


def tables(played: Played, points: int) -> list[Table]:
    """Return one table over time, policies side by side, and one of the means."""
    series = {
        name: replay.sample(run.moments, played.times(points)) for name, run in played.runs.items()
    }
    columns = [f"{name}:{what}" for name in series for what in ("ALLOC", "FRAG", "WAIT(pods)")]
    over_time: Table = [("SECONDS", *columns)]
    for index, time in enumerate(played.times(points)):
        cells: list[object] = [f"{time:.0f}"]
        for moments in series.values():
            moment = moments[index]
            used, fragmented = played.utilisation(moment), played.fragmentation(moment)
            cells += [f"{used:.1%}", f"{fragmented:.1%}", moment.waiting]
        over_time.append(cells)
    means: Table = [
        (
            "POLICY",
            "PLACED(pods)",
            "UNPLACED(pods)",
            "MEAN-WAIT(s)",
            "MEAN-ALLOC",
            "MEAN-FRAG",
            "MEAN-FRAG(cards)",
        )
    ]
    for name, run in played.runs.items():
        mean = _means(played, run)
        shares = (f"{mean[what]:.1%}" for what in ("utilisation", "fragmentation"))
        wait, cards = f"{mean['wait_seconds']:.0f}", f"{mean['fragmented_cards']:.2f}"
        means.append((name, run.placed, run.unplaced, wait, *shares, cards))
    return [over_time, means]


def as_json(played: Played, points: int) -> dict[str, Any]:
    """Return the answer as the schema ``replay`` has it."""
    times = played.times(points)
    return {
        "cards": played.cores // CORES_PER_CARD,
        "policies": [
            {
                "policy": name,
                "placed": run.placed,
                "unplaced": run.unplaced,
                "mean": _means(played, run),
                "series": [
                    {"at": at, **_measures(played, moment), "waiting": moment.waiting}
                    for at, moment in zip(times, replay.sample(run.moments, times), strict=True)
                ],
            }
            for name, run in played.runs.items()
        ],
    }


def _measures(played: Played, moment: Moment) -> dict[str, float]:
    return {
        "utilisation": round(played.utilisation(moment), 6),
        "memory_utilisation": round(played.memory_utilisation(moment), 6),
        "fragmentation": round(played.fragmentation(moment), 6),
        "fragmented_cards": round(played.fragmented_cards(moment), 6),
    }


def _means(played: Played, run: Run) -> dict[str, float]:
    values = {
        "utilisation": played.utilisation,
        "memory_utilisation": played.memory_utilisation,
        "fragmentation": played.fragmentation,
        "fragmented_cards": played.fragmented_cards,
    }
    means = {
        name: round(replay.mean(run.moments, played.end, value), 6)
        for name, value in values.items()
    }
    waited = run.waited_seconds / run.placed if run.placed else 0.0
    return {**means, "wait_seconds": round(waited, 6)}
