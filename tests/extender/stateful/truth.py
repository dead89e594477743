"""What is true, computed from the API server's objects alone, without the product's arithmetic.

Every decision is judged at the moment when it takes effect. It must fit beside all that its author
had to know: what the author decided itself, what it had been shown, and what was true when it began
to decide after a pause (then it has to look). The one thing that is excused is the contract's: two
instances that decide at the same time. The agent refuses the second at Allocate.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpustack.wire.annotations import Keys
from tests.extender.stateful.server import Call, Caller, Judge, Known, Server
from tests.fakes.kube_store import KubeObject

KEYS = Keys("tencent.com")
CORES = 100
UNITS = 320
NAMESPACE = "limited"  # the only one with a quota
MODEL = "A100"
# A reservation lives for 900 s from the decision. A decision may take effect up to 60 s after it
# was made, and clocks differ by 20 s; for so long it surely holds, and schedulers bind within it.
SURE_SECONDS = 600.0
LONGEST_SECONDS = 900.0 + 60.0 + 20.0

Asked = tuple[str, int, int]  # of one container: annotation suffix, cores, units
Cards = Mapping[tuple[str, int], tuple[int, int]]  # (node, minor): cores and units taken


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision that took effect: by whom (None for a user), at which version, and when."""

    author: Caller | None
    version: int
    at: float
    text: tuple[tuple[str, str], ...]


def asked(pod: KubeObject) -> list[Asked]:
    """What each container asks that runs to the pod's end."""
    found = []
    for prefix, name in (("", "containers"), ("init-", "initContainers")):
        for index, container in enumerate(pod["spec"].get(name) or ()):
            limits = container["resources"]["limits"]
            cores = int(limits[KEYS.vcuda_core])
            units = int(limits.get(KEYS.vcuda_memory) or 0)
            found.append((f"{prefix}{index}", cores, units))
    return found


def text_of(pod: KubeObject) -> tuple[tuple[str, str], ...]:
    """The decision as it stands on a pod."""
    annotations = pod["metadata"].get("annotations") or {}
    return tuple(sorted((k, v) for k, v in annotations.items() if "/predicate-" in k))


def finished(pod: KubeObject) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def bound(pod: KubeObject) -> str:
    name: str = pod["spec"].get("nodeName") or ""
    return name


def pending(pod: KubeObject) -> bool:
    return not bound(pod) and not finished(pod) and not pod["metadata"].get("deletionTimestamp")


def cards(pod: KubeObject) -> dict[tuple[str, int], tuple[int, int]]:
    """The cards that a pod's annotations give it; none where they can't be what was decided."""
    written = pod["metadata"].get("annotations") or {}
    node = written.get(KEYS.predicate_node, "")
    if not node or (bound(pod) and bound(pod) != node):
        return {}
    total: dict[tuple[str, int], tuple[int, int]] = {}
    for suffix, cores, units in asked(pod):
        minors = [
            int(minor) for minor in written.get(f"{KEYS.idx_prefix}{suffix}", "-1").split(",")
        ]
        if len(minors) != max(1, cores // CORES) or -1 in minors:
            return {}
        for minor in minors:
            share = (CORES, UNITS) if cores >= CORES else (cores, units)
            total[node, minor] = _sum(total.get((node, minor), (0, 0)), share)
    return total


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


class Truth(Judge):
    """Judges decisions, and knows what is free. ``wrong`` holds what must not have happened."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.wrong: list[str] = []
        self.decisions = 0
        self.excused = 0
        self._of: dict[str, Decided] = {}
        self.unschedulable: dict[str, float] = {}
        # Cards that an instance may keep, because it can't know whether its write took effect.
        self._doubts: dict[tuple[str, str], tuple[float, bool, Cards]] = {}
        self._nodes: dict[str, list[tuple[int, dict[int, bool]]]] = {}

    # What happens.

    def set_node(self, value: KubeObject, health: dict[int, bool]) -> None:
        """A node has these cards from this version on, and they are well or not."""
        name, version = value["metadata"]["name"], int(value["metadata"]["resourceVersion"])
        self._nodes.setdefault(name, []).append((version, health))

    def decided(self, author: Caller, call: Call, known: Known) -> None:
        pod = self._named(call)
        self.decisions += 1
        now = self._server.clock.seconds
        text, version = text_of(pod), int(pod["metadata"]["resourceVersion"])
        self._of[pod["metadata"]["uid"]] = Decided(
            author=author, version=version, at=now, text=text
        )
        self._judge_cards(author, pod, known)
        self._judge_quota(author, pod, known)

    def doubt(self, author: Caller, call: Call) -> None:
        if not call.decides:
            return
        pod = self._named(call, {})
        if pod:
            wanted = {**pod, "spec": {**pod["spec"], "nodeName": ""}}
            wanted["metadata"] = {
                **pod["metadata"],
                "annotations": call.body["metadata"]["annotations"],
            }
            until = self._server.clock.seconds + LONGEST_SECONDS
            binding = call.method == "POST"
            self._doubts[author.name, pod["metadata"]["uid"]] = until, binding, cards(wanted)

    def told(self, author: Caller, call: Call) -> None:
        pod = self._named(call, {})
        key = author.name, pod["metadata"]["uid"] if pod else ""
        if key in self._doubts and (call.decides or self._doubts[key][1]):
            del self._doubts[key]

    def _named(self, call: Call, default: Any = None) -> KubeObject:
        _, _, _, _, namespace, _, name, *_ = (*call.path.split("/"), "")
        found = [
            each
            for each in self.pods()
            if (each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, name)
        ]
        return found[0] if found else default

    # What is.

    def pods(self) -> list[KubeObject]:
        return self._server.store.list("pods")[1]

    def decision(self, pod: KubeObject) -> Decided:
        """Who wrote what stands on a pod; a text that no instance wrote is a user's."""
        known = self._of.get(pod["metadata"]["uid"])
        if known is not None and known.text == text_of(pod):
            return known
        made = Decided(
            author=None,
            version=int(pod["metadata"]["resourceVersion"]),
            at=self._server.clock.seconds,
            text=text_of(pod),
        )
        self._of[pod["metadata"]["uid"]] = made
        return made

    def holds(self, pod: KubeObject, *, surely: bool) -> Cards:
        """What a pod holds: bound, or reserved, ``surely`` or perhaps still."""
        if finished(pod) or not text_of(pod):
            return {}
        if bound(pod):
            return cards(pod)
        if pod["spec"].get("schedulingGates"):
            return {}
        made = self.decision(pod)
        said = self.unschedulable.get(pod["metadata"]["uid"], float("-inf"))
        if surely and (self._server.clock.seconds - made.at > SURE_SECONDS or said >= made.at - 60):
            return {}
        return cards(pod)

    # What a decision must have respected.

    def _judge_cards(self, author: Caller, pod: KubeObject, known: Known) -> None:
        mine = cards(pod)
        where = self._health(bound(pod) or next(iter(mine), ("", 0))[0], known)
        if not mine or not all(where.get(minor) for _, minor in mine):
            self._complain(author, pod, f"no such cards, or not well: {mine} of {where}")
        total: Counter[tuple[tuple[str, int], int]] = Counter()
        unknown = False
        for holder in self._holders(pod):
            taken = {
                card: use for card, use in self.holds(holder, surely=True).items() if card in mine
            }
            if taken and not (self._must_know(author, holder, known)):
                unknown = True
            elif taken:
                _add(total, taken)
        _add(total, mine)
        most = CORES, UNITS
        over = [(card, which, sum_) for (card, which), sum_ in total.items() if sum_ > most[which]]
        if over:
            self._complain(author, pod, f"over capacity: {over}; {self._told(author, pod, known)}")
        self.excused += unknown

    def _told(self, author: Caller, pod: KubeObject, known: Known) -> str:
        """What there was to know of each holder: for whoever reads a failure."""
        words = [f"it was obliged to know {known.obliged}"]
        for holder in self._holders(pod):
            if taken := self.holds(holder, surely=True):
                made, uid = self.decision(holder), holder["metadata"]["uid"]
                who = "itself" if made.author is author else made.author and made.author.name
                shown = known.shown.get(uid, 0)
                words.append(f"{uid} {taken} by {who} at {made.version}, shown {shown}")
        return "; ".join(words)

    def _holders(self, pod: KubeObject) -> Iterator[KubeObject]:
        uid = pod["metadata"]["uid"]
        return (each for each in self.pods() if each["metadata"]["uid"] != uid)

    def _must_know(self, author: Caller, holder: KubeObject, known: Known) -> bool:
        made = self.decision(holder)
        return (
            made.author is author
            or made.version <= known.obliged
            or made.version <= known.shown.get(holder["metadata"]["uid"], 0)
        )

    def _health(self, node: str, known: Known) -> dict[int, bool]:
        shown = max(known.shown.get(f"node-{node}", 0), known.obliged)
        found: dict[int, bool] = {}
        for version, health in self._nodes.get(node, ()):
            if version <= shown:
                found = health
        return found

    def _judge_quota(self, author: Caller, pod: KubeObject, known: Known) -> None:
        limit = quota_of(known.quota)
        if pod["metadata"]["namespace"] != NAMESPACE or limit is None:
            return
        used = sum(
            use[0]
            for holder in self._holders(pod)
            if holder["metadata"]["namespace"] == NAMESPACE
            and self._must_know(author, holder, known)
            for use in self.holds(holder, surely=True).values()
        )
        more = sum(use[0] for use in cards(pod).values())
        if used + more > limit:
            self._complain(author, pod, f"quota of {limit}: {used} used and {more} more")

    def _complain(self, author: Caller, pod: KubeObject, text: str) -> None:
        self.wrong.append(f"{author.name} gave {pod['metadata']['name']} {text_of(pod)}: {text}")

    # What is free.

    def uses(self, node: str, *, surely: bool, by: Caller | None = None) -> Counter[Any]:
        total: Counter[Any] = Counter()
        now = self._server.clock.seconds
        held: list[Cards] = [self.holds(pod, surely=surely) for pod in self.pods()]
        if by is not None:
            held += [
                taken
                for (name, _), (until, _, taken) in self._doubts.items()
                if name == by.name and until > now
            ]
        for each in held:
            _add(total, {card: use for card, use in each.items() if card[0] == node})
        return total

    def fits(self, pod: KubeObject, node: str, total: Mapping[Any, int]) -> bool:
        """Whether cards for a pod are free on a node as it is now, by trying all there are."""
        health = self._nodes[node][-1][1] if node in self._nodes else {}
        free = {
            minor: (
                CORES - total.get(((node, minor), 0), 0),
                UNITS - total.get(((node, minor), 1), 0),
            )
            for minor, well in health.items()
            if well
        }
        return _placed(sorted(asked(pod), key=lambda each: -each[1]), free)

    def within_quota(self, pod: KubeObject, quota: KubeObject | None) -> bool:
        limit = quota_of(quota)
        if pod["metadata"]["namespace"] != NAMESPACE or limit is None:
            return True
        used = sum(
            use[0]
            for each in self._holders(pod)
            if each["metadata"]["namespace"] == NAMESPACE
            for use in self.holds(each, surely=False).values()
        )
        return used + sum(cores for _, cores, _ in asked(pod)) <= limit


def quota_of(value: KubeObject | None) -> int | None:
    """Hundredths of a card that the limited namespace may hold."""
    if value is None or NAMESPACE not in value:
        return None
    cards_allowed: float = value[NAMESPACE]["quota"][MODEL]
    return round(cards_allowed * CORES)


def _placed(wanted: Iterable[Asked], free: dict[int, tuple[int, int]]) -> bool:
    """Whether all these containers find cards; whole cards come first."""
    wanted = list(wanted)
    if not wanted:
        return True
    _, cores, units = wanted[0]
    if cores >= CORES:
        idle = [minor for minor, each in free.items() if each == (CORES, UNITS)]
        return any(
            _placed(wanted[1:], {m: f for m, f in free.items() if m not in chosen})
            for chosen in itertools.combinations(idle, cores // CORES)
        )
    return any(
        _placed(wanted[1:], {**free, minor: (each[0] - cores, each[1] - units)})
        for minor, each in free.items()
        if each[0] >= cores and each[1] >= units
    )


def _add(total: "Counter[Any]", taken: Cards) -> None:
    for card, use in taken.items():
        for which in (0, 1):
            total[card, which] += use[which]
