"""What is true, computed from the API server's objects alone, without the product's arithmetic.

Who holds which cards, surely or perhaps; who may come next; what is free. ``judge`` and
``preemption`` hold what the instances do against it.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from tests.extender.stateful import pods
from tests.extender.stateful.caller import Caller
from tests.extender.stateful.hosts import Host, Hosts, add, ways
from tests.extender.stateful.pods import Cards
from tests.extender.stateful.quotas import Limit
from tests.extender.stateful.server import Call, Server
from tests.fakes.kube_store import KubeObject

# A reservation lives for 900 s from the decision. A decision may take effect up to 60 s after it
# was made, and clocks differ by 20 s; for so long it surely holds, and schedulers bind within it.
SURE_SECONDS = 600.0
_CONFLICT = 409
_CLEAR = {403, 404, 422}  # nothing was written, and nothing will be
LONGEST_SECONDS = 900.0 + 60.0 + 20.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision that took effect: by whom (None: a user), at which version, when, what quota."""

    author: Caller | None
    version: int
    at: float
    text: tuple[tuple[str, str], ...]
    quota: KubeObject | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Cards that an instance may keep, for how long, and which calls about the pod end that."""

    taken: Cards
    until: float
    ends: Collection[str]


class Truth:
    """Knows all objects, and who wrote what stands on them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.hosts = Hosts()
        self.unschedulable: dict[str, float] = {}
        self._of: dict[str, Decided] = {}
        # Cards that an instance may keep, because it can't know whether its write took effect.
        self._doubts: dict[tuple[str, str], Doubt] = {}

    # What is written.

    def took_effect(self, author: Caller, pod: KubeObject, quota: KubeObject | None) -> None:
        """Remember who wrote the decision that stands on a pod now, knowing which quota."""
        self._of[pods.uid(pod)] = Decided(
            author=author,
            version=pods.version(pod),
            at=self.server.clock.seconds,
            text=pods.text_of(pod),
            quota=quota,
        )

    def doubt(self, author: Caller, call: Call, status: int) -> None:
        """An instance can't know whether its write took effect, or will; 0 without an answer."""
        pod = self.named(call) if call.decides else None
        if pod is None or status in _CLEAR or (status == _CONFLICT and call.method == "POST"):
            return
        wanted = {**pod, "spec": {**pod["spec"], "nodeName": ""}}
        wanted["metadata"] = {
            **pod["metadata"],
            "annotations": call.body["metadata"]["annotations"],
        }
        ends = {"PATCH", "POST"}
        if call.method == "PATCH":
            # A conflict may come from a first try that lost its answer; a look at the pod tells.
            ends = {"decision", "GET"} if status == _CONFLICT else {"decision"}
        self._doubts[author.name, pods.uid(pod)] = Doubt(
            taken=pods.cards(wanted), until=self.server.clock.seconds + LONGEST_SECONDS, ends=ends
        )

    def told(self, author: Caller, call: Call) -> None:
        """An instance knows what became of its write."""
        pod = self.named(call)
        key = author.name, pods.uid(pod) if pod else ""
        said = {call.method, "decision"} if call.decides else {call.method}
        if key in self._doubts and said & set(self._doubts[key].ends):
            del self._doubts[key]

    def written(self, uid: str) -> Decided | None:
        """The last decision that some instance or user wrote on a pod."""
        return self._of.get(uid)

    def named(self, call: Call) -> KubeObject | None:
        """The pod that a call is about, and not another one of its name."""
        there = (each for each in self.pods() if pods.key(each)[1:] == call.named)
        return next((each for each in there if call.uid in {"", pods.uid(each)}), None)

    # What is.

    def pods(self) -> list[KubeObject]:
        """All pods, for reading only."""
        return self.server.store.seen("pods")

    def pod(self, uid: str) -> KubeObject | None:
        """One that is there."""
        return next((each for each in self.pods() if pods.uid(each) == uid), None)

    def others(self, pod: KubeObject) -> Iterator[KubeObject]:
        """All pods but one."""
        return (each for each in self.pods() if pods.uid(each) != pods.uid(pod))

    def decision(self, pod: KubeObject) -> Decided:
        """Who wrote what stands on a pod; a text that no instance wrote is a user's."""
        known = self._of.get(pods.uid(pod))
        if known is not None and known.text == pods.text_of(pod):
            return known
        made = Decided(
            author=None,
            version=pods.version(pod),
            at=self.server.clock.seconds,
            text=pods.text_of(pod),
        )
        self._of[pods.uid(pod)] = made
        return made

    def holds(self, pod: KubeObject, *, surely: bool) -> Cards:
        """What a pod holds: bound, or reserved, ``surely`` or perhaps still."""
        if pods.finished(pod) or not pods.text_of(pod):
            return {}
        if pods.bound(pod):
            return pods.cards(pod)
        if pods.gated(pod):
            return {}
        made = self.decision(pod)
        said = self.unschedulable.get(pods.uid(pod), float("-inf"))
        if surely and (self.server.clock.seconds - made.at > SURE_SECONDS or said >= made.at - 60):
            return {}
        return pods.cards(pod)

    def doubts(self, author: Caller) -> Iterator[tuple[str, Cards]]:
        """The pods (UID) whose cards an instance may keep, though nobody else sees them."""
        now = self.server.clock.seconds
        for (name, uid), doubt in self._doubts.items():
            if name == author.name and doubt.until > now:
                yield uid, doubt.taken

    # Whose turn it is.

    def in_line(self, pod: KubeObject, node: str) -> list[KubeObject]:
        """The others for whom room is made on a node, and who don't come after this pod."""
        return [
            each
            for each in self.others(pod)
            if pods.nominated(each) == node
            and pods.pending(each)
            and not pods.gated(each)
            and pods.priority(each) >= pods.priority(pod)
            and not self.holds(each, surely=False)
        ]

    def first_in_line(self, pod: KubeObject, node: str) -> KubeObject | None:
        """The most important one of those, if there is a single one."""
        found = sorted(self.in_line(pod, node), key=pods.priority)
        if len(found) > 1 and pods.priority(found[-1]) == pods.priority(found[-2]):
            return None
        return found[-1] if found else None

    def leaving(self, node: str) -> set[str]:
        """The pods (UID) that are on their way out of a node."""
        there = (each for each in self.pods() if pods.running(each, node))
        return {pods.uid(each) for each in there if pods.ending(each)}

    # What is free.

    def uses(
        self,
        node: str,
        *,
        surely: bool,
        by: Caller | None = None,
        without: Collection[str] = (),
    ) -> Counter[Any]:
        """What is taken of a node's cards; also what one instance may keep where it is named."""
        held = [
            self.holds(pod, surely=surely) for pod in self.pods() if pods.uid(pod) not in without
        ]
        if by is not None:
            held += [taken for _, taken in self.doubts(by)]
        total: Counter[Any] = Counter()
        for each in held:
            add(total, {card: use for card, use in each.items() if card[0] == node})
        return total

    def used(
        self,
        pod: KubeObject,
        host: Callable[[str], Host],
        counts: Callable[[KubeObject], bool],
        *,
        surely: bool = True,
    ) -> Counter[str]:
        """What the others of a pod's namespace hold, by model."""
        used: Counter[str] = Counter()
        for each in self.others(pod):
            if each["metadata"]["namespace"] == pod["metadata"]["namespace"] and counts(each):
                used += amounts(self.holds(each, surely=surely), host)
        return used

    def fits(self, pod: KubeObject, node: str, total: Mapping[Any, int]) -> bool:
        """Whether cards for a pod are free on a node as it is now."""
        return any(True for _ in ways(pod, node, self.hosts.now(node), total))

    def allowed(
        self,
        pod: KubeObject,
        node: str,
        total: Mapping[Any, int],
        quota: KubeObject | None,
        *,
        without: Collection[str] = (),
    ) -> bool:
        """Whether such cards are free that the pod's namespace may have."""
        host = self.hosts.now(node)
        limit = Limit(quota, pod["metadata"]["namespace"])
        used = self.used(
            pod, self.hosts.now, lambda each: pods.uid(each) not in without, surely=False
        )
        for way in ways(pod, node, host, total):
            more: Counter[int] = Counter()
            for minor, cores in way:
                more[minor] += cores
            if not limit.problem(host, host.amounts(more), used):
                return True
        return False


def amounts(taken: Cards, host: Callable[[str], Host]) -> Counter[str]:
    """Hundredths by model, of cards of any nodes."""
    found: Counter[str] = Counter()
    for (name, minor), (cores, _) in taken.items():
        found += host(name).amounts({minor: cores})
    return found
