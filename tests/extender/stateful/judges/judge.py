"""Judges every decision at the moment when it takes effect.

A decision must fit beside all that its author had to know: the author's own decisions, the objects
that it had seen, and the state when it began to decide after a pause (then it has to read). One
fault is excused: two instances decide at the same time. The agent refuses the second at Allocate.
A new request for a pod frees the pod's earlier cards: a scheduler that asks again has given up the
answer before, and the next request gets those cards as far as they are still free.
"""

from collections import Counter
from typing import Any

from tests.extender.stateful import pods
from tests.extender.stateful.api_server.caller import Caller, Known
from tests.extender.stateful.api_server.server import Call
from tests.extender.stateful.hosts import UNITS, Host, add
from tests.extender.stateful.judges.truth import Truth, amounts
from tests.extender.stateful.pods import CORES
from tests.extender.stateful.quotas import Limit
from tests.fakes.kube_store import KubeObject


class Decisions:
    """The judge of written decisions; ``wrong`` holds the faults."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.wrong: list[str] = []
        self.count = 0

    def decided(self, author: Caller, call: Call, known: Known) -> None:
        pod = self._truth.named(call)
        assert pod is not None, call
        self.count += 1
        before = self._truth.written(pods.uid(pod))
        if before is not None and before.version > known.version:
            self._complain(author, pod, f"an old decision over a newer one: {before}")
        self._truth.took_effect(author, pod, known.quota)
        self._judge_cards(author, pod, known)
        self._judge_quota(author, pod, known)
        self._judge_turn(author, pod, known)

    def doubt(self, author: Caller, call: Call, status: int) -> None:
        self._truth.doubt(author, call, status)

    def told(self, author: Caller, call: Call) -> None:
        self._truth.told(author, call)

    def _judge_cards(self, author: Caller, pod: KubeObject, known: Known) -> None:
        mine = pods.cards(pod)
        name = pods.bound(pod) or next(iter(mine), ("", 0))[0]
        host = self._host(name, known)
        well = {minor for minor, each in enumerate(host.well) if each}
        if not mine or not {minor for _, minor in mine} <= well:
            self._complain(author, pod, f"no such cards, or not well: {mine} of {host}")
            return
        total: Counter[Any] = Counter()
        for holder in self._truth.others(pod):
            if self._must_know(author, holder, known):
                add(total, self._truth.holds(holder, surely=True))
        add(total, mine)
        for card in mine:
            most = CORES, UNITS[host.models[card[1]]]
            over = [which for which in (0, 1) if total[card, which] > most[which]]
            if over or card[0] != name:
                told = self._told(author, pod, known)
                self._complain(author, pod, f"over capacity: {card}; {told}")

    def _told(self, author: Caller, pod: KubeObject, known: Known) -> str:
        """What the author could know of each holder, for the reader of a failure."""
        words = [f"it was obliged to know {known.obliged}"]
        for holder in self._truth.others(pod):
            if taken := self._truth.holds(holder, surely=True):
                made, uid = self._truth.decision(holder), pods.uid(holder)
                who = "itself" if made.author is author else made.author and made.author.name
                shown = known.shown.get(uid, 0)
                words.append(f"{uid} {taken} by {who} at {made.version}, shown {shown}")
        return "; ".join(words)

    def _must_know(self, author: Caller, holder: KubeObject, known: Known) -> bool:
        made = self._truth.decision(holder)
        if not pods.bound(holder) and pods.uid(holder) in author.busy:
            return False  # a new request is open, and the decision before will bind no pod
        later = dict(self._truth.doubts(author)).get(pods.uid(holder))
        if not pods.bound(holder) and later is not None and later != pods.cards(holder):
            return False  # a later decision of the author exists, and this one will bind no pod
        return (
            made.author is author
            or made.version <= known.obliged
            or made.version <= known.shown.get(pods.uid(holder), 0)
        )

    def _host(self, name: str, known: Known) -> Host:
        """The decision's node, which the author has to read after a pause."""
        shown = known.shown.get(f"node-{name}", 0)
        return self._truth.hosts.at(name, max(shown, known.nodes_at, known.obliged))

    def _judge_quota(self, author: Caller, pod: KubeObject, known: Known) -> None:
        namespace = pod["metadata"]["namespace"]
        limit = Limit(known.quota, namespace)
        if not limit:
            return

        def host(name: str) -> Host:
            # The author may leave other nodes unread; the models of a deleted node are unknown.
            shown = known.shown.get(f"node-{name}", 0)
            return self._truth.hosts.at(name, max(shown, known.nodes_at))

        def counts(holder: KubeObject) -> bool:
            made = self._truth.decision(holder)
            later = made.author is author and made.version > known.version
            # This write came late; its author's later decisions were judged by their own quota.
            if later and made.quota != known.quota:
                return False
            return self._must_know(author, holder, known)

        used = self._truth.used(pod, host, counts)
        name = next(iter(pods.cards(pod)), ("", 0))[0]
        there = self._host(name, known)
        if no := limit.problem(there, amounts(pods.cards(pod), lambda _: there), used):
            self._complain(author, pod, f"quota: {no}")

    def _judge_turn(self, author: Caller, pod: KubeObject, known: Known) -> None:
        """Room that is made for a pod goes to it, and not to a less important pod."""
        if not known.current or self._truth.server.store.version != known.version + 1:
            return  # the author couldn't know the changes in between
        mine = pods.cards(pod)
        name = next(iter(mine), ("", 0))[0]
        first = self._truth.first_in_line(pod, name)
        without = self._truth.leaving(name) | {pods.uid(pod)}
        total = self._truth.uses(name, surely=True, without=without)
        if total != self._truth.uses(name, surely=False, by=author, without=without):
            return  # the author may count more cards as held
        if first is None or not self._truth.fits(first, name, total):
            return
        add(total, mine)
        if not self._truth.fits(first, name, total):
            self._complain(author, pod, f"room was made for {pods.uid(first)}")

    def _complain(self, author: Caller, pod: KubeObject, text: str) -> None:
        self.wrong.append(f"{author.name} gave {pods.uid(pod)} {pods.text_of(pod)}: {text}")
