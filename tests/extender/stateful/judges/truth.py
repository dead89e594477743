"""The true state, computed from the API server's objects alone, without the product's arithmetic.

The cards that pods hold, surely or perhaps; the pods that come next; the free cards. ``judge`` and
``preemption`` hold the instances' decisions against it.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from tests.extender.stateful import pods
from tests.extender.stateful.api_server.caller import Caller
from tests.extender.stateful.api_server.server import Call, Server
from tests.extender.stateful.hosts import Host, Hosts, add, ways
from tests.extender.stateful.pods import Cards
from tests.extender.stateful.quotas import Limit
from tests.fakes.kube_store import KubeObject

# A reservation lives for 900 s from the decision. A decision may take effect up to 60 s after it
# was made, and clocks differ by 20 s; it surely holds for this time, and schedulers bind within it.
SURE_SECONDS = 600.0
_CONFLICT = 409
_CLEAR = {403, 404, 422}  # the write has no effect, now or later
LONGEST_SECONDS = 900.0 + 60.0 + 20.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision that took effect: its author (None: a user), version, time and quota."""

    author: Caller | None
    version: int
    at: float
    text: tuple[tuple[str, str], ...]
    quota: KubeObject | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Cards that an instance may keep, for how long, and the calls of the pod that end it."""

    taken: Cards
    until: float
    ends: Collection[str]


class Truth:
    """Knows all objects, and the authors of their decisions."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.hosts = Hosts()
        self.unschedulable: dict[str, float] = {}
        self._of: dict[str, Decided] = {}
        # Cards that an instance may keep, because it can't know whether its write took effect.
        self._doubts: dict[tuple[str, str], Doubt] = {}

    # Writes.

    def took_effect(self, author: Caller, pod: KubeObject, quota: KubeObject | None) -> None:
        """Remember the author of the pod's present decision, and the quota that it knew."""
        self._of[pods.uid(pod)] = Decided(
            author=author,
            version=pods.version(pod),
            at=self.server.clock.seconds,
            text=pods.text_of(pod),
            quota=quota,
        )

    def doubt(self, author: Caller, call: Call, status: int) -> None:
        """Note that an instance can't know its write's effect; status 0: without an answer."""
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
            # A conflict may come from a first try that lost its answer; a read of the pod tells.
            ends = {"decision", "GET"} if status == _CONFLICT else {"decision"}
        self._doubts[author.name, pods.uid(pod)] = Doubt(
            taken=pods.cards(wanted), until=self.server.clock.seconds + LONGEST_SECONDS, ends=ends
        )

    def told(self, author: Caller, call: Call) -> None:
        """Note that an instance knows the result of its write."""
        pod = self.named(call)
        key = author.name, pods.uid(pod) if pod else ""
        said = {call.method, "decision"} if call.decides else {call.method}
        if key in self._doubts and said & set(self._doubts[key].ends):
            del self._doubts[key]

    def written(self, uid: str) -> Decided | None:
        """The last decision that an instance or user wrote on a pod."""
        return self._of.get(uid)

    def named(self, call: Call) -> KubeObject | None:
        """The pod of a call, and not another pod of its name."""
        there = (each for each in self.pods() if pods.key(each)[1:] == call.named)
        return next((each for each in there if call.uid in {"", pods.uid(each)}), None)

    # State.

    def pods(self) -> list[KubeObject]:
        """All pods, for reading only."""
        return self.server.store.seen("pods")

    def pod(self, uid: str) -> KubeObject | None:
        """A present pod."""
        return next((each for each in self.pods() if pods.uid(each) == uid), None)

    def others(self, pod: KubeObject) -> Iterator[KubeObject]:
        """All pods but one."""
        return (each for each in self.pods() if pods.uid(each) != pods.uid(pod))

    def decision(self, pod: KubeObject) -> Decided:
        """The decision on a pod and its author; the author of any other text is a user."""
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
        """The cards of a pod: bound, or reserved, ``surely`` or perhaps still."""
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
        """The pods (UID) whose cards an instance may keep, unseen by others."""
        now = self.server.clock.seconds
        for (name, uid), doubt in self._doubts.items():
            if name == author.name and doubt.until > now:
                yield uid, doubt.taken

    # The order of nominated pods.

    def in_line(self, pod: KubeObject, node: str) -> list[KubeObject]:
        """The other pods nominated to a node that come before this pod, or are its equals."""
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
        """The most important of these pods, if there is a single one."""
        found = sorted(self.in_line(pod, node), key=pods.priority)
        if len(found) > 1 and pods.priority(found[-1]) == pods.priority(found[-2]):
            return None
        return found[-1] if found else None

    def leaving(self, node: str) -> set[str]:
        """The ending pods (UID) of a node."""
        there = (each for each in self.pods() if pods.running(each, node))
        return {pods.uid(each) for each in there if pods.ending(each)}

    # Free cards.

    def uses(
        self,
        node: str,
        *,
        surely: bool,
        by: Caller | None = None,
        without: Collection[str] = (),
    ) -> Counter[Any]:
        """The taken cards of a node, and those that instance ``by`` may keep."""
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
        """The use of the other pods of a pod's namespace, by model."""
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
        """Whether cards are free that the pod's namespace surely may have."""
        host = self.hosts.now(node)
        limit = Limit(quota, pod["metadata"]["namespace"])
        if limit and self.has_lost_cards(pod["metadata"]["namespace"]):
            return False
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

    def has_lost_cards(self, namespace: str) -> bool:
        """Whether pods hold cards that their nodes lack: they count on what an instance knew."""
        return any(
            minor >= len(self.hosts.now(name).models)
            for each in self.pods()
            if each["metadata"]["namespace"] == namespace
            for name, minor in self.holds(each, surely=False)
        )


def amounts(taken: Cards, host: Callable[[str], Host]) -> Counter[str]:
    """Hundredths by model, of cards of any nodes."""
    found: Counter[str] = Counter()
    for (name, minor), (cores, _) in taken.items():
        found += host(name).amounts({minor: cores})
    return found
