"""Judges the answers of the verb preempt, by trying every set of pods that may end."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tests.extender.stateful import pods
from tests.extender.stateful.api_server.caller import Caller
from tests.extender.stateful.judges.truth import Truth
from tests.fakes.kube_store import KubeObject

Victims = Mapping[str, Sequence[str]]  # UIDs by node


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question: the pod that asks for room, the instance, and the scheduler's proposed victims.

    ``short`` are the nodes whose totals are too small for the pod: whatever is free there.
    """

    caller: Caller
    pod: KubeObject
    proposed: Victims
    short: Collection[str]


class Preemptions:
    """Holds answers against the truth; ``wrong`` holds the faults."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.wrong: list[str] = []
        self.exact = 0  # answers that were held against every set of victims

    def judge(self, asked: Asked, answer: Victims) -> None:
        """Only less important pods end; and where all is known, the fewest end, or none."""
        self._wrong(asked, answer, self._important(asked, answer))
        if answer.keys() - asked.proposed.keys():
            self._wrong(asked, answer, [f"other nodes than were asked about: {asked.proposed}"])
        if self._certain(asked):
            self.exact += 1
            self._wrong(asked, answer, self._needless(asked, answer))
            for name in asked.proposed:
                self._wrong(asked, answer, self._of_node(asked, name, answer.get(name)))

    def _wrong(self, asked: Asked, answer: Victims, problems: Iterable[str]) -> None:
        who = f"{asked.caller.name} ends {dict(answer)} for {pods.uid(asked.pod)}"
        self.wrong.extend(f"{who}: {each}" for each in problems)

    def _important(self, asked: Asked, answer: Victims) -> Iterator[str]:
        for name, uids in answer.items():
            for victim in filter(None, map(self._truth.pod, uids)):
                if pods.priority(victim) >= pods.priority(asked.pod):
                    yield f"{pods.uid(victim)} is as important"
                if pods.bound(victim) != name:
                    yield f"{pods.uid(victim)} is not on {name}"

    def _certain(self, asked: Asked) -> bool:
        """Whether the instance knows all objects, and no write is in doubt."""
        truth, caller = self._truth, asked.caller
        return (
            caller.current(truth.server)
            and not caller.no_quota_yet
            and not truth.has_lost_cards(asked.pod["metadata"]["namespace"])
            and not any(True for _ in truth.doubts(caller))
            and all(
                truth.holds(pod, surely=True) == truth.holds(pod, surely=False)
                for pod in truth.pods()
            )
        )

    def _needless(self, asked: Asked, answer: Victims) -> Iterator[str]:
        """Pods end though there is room, or will be after the end of the ending pods."""
        truth, own = self._truth, pods.uid(asked.pod)
        if not answer:
            return
        for name in set(truth.hosts.names) - set(asked.short):
            if not truth.in_line(asked.pod, name) and self._fits(asked, name, {own}):
                yield f"there is room on {name}"
        name = pods.nominated(asked.pod)
        leaving = {own, *truth.leaving(name)}
        if not truth.in_line(asked.pod, name) and self._fits(asked, name, leaving):
            yield f"there will be room on {name}"

    def _of_node(self, asked: Asked, name: str, ended: Sequence[str] | None) -> Iterator[str]:
        truth = self._truth
        if truth.in_line(asked.pod, name):
            return
        gone = {pods.uid(asked.pod), *truth.leaving(name)}
        comes = self._fits(asked, name, gone)  # room after the end of the ending pods
        fewest = self._fewest(asked, name)
        if fewest is None and ended is not None:
            yield f"no set helps on {name}"
        elif fewest is not None and ended is None:
            if not (fewest and comes):
                yield f"the end of {fewest} would help on {name}"
        elif self._fits(asked, name, {pods.uid(asked.pod)}):
            if list(ended or ()) != list(asked.proposed[name]):
                yield f"it isn't cards that {name} is short of"
        elif fewest is not None and ended is not None:
            living = {uid for uid in ended if uid not in gone and self._holds(uid)}
            if not self._fits(asked, name, {pods.uid(asked.pod), *ended}):
                yield f"there is no room on {name} without them"
            if len(living) > (0 if comes else len(fewest)):
                yield f"the end of {fewest} on {name} is enough"

    def _fewest(self, asked: Asked, name: str) -> tuple[str, ...] | None:
        """The fewest pods whose end makes room, beside the pods that end anyway.

        Pods as important can't be victims, so kube-scheduler doesn't count on their end.
        """
        truth = self._truth
        gone = {pods.uid(asked.pod)} | {
            uid
            for uid in truth.leaving(name)
            if (there := truth.pod(uid)) and pods.priority(there) < pods.priority(asked.pod)
        }
        lower = [
            pods.uid(each)
            for each in truth.pods()
            if pods.running(each, name)
            and pods.priority(each) < pods.priority(asked.pod)
            and truth.holds(each, surely=True)
            and pods.uid(each) not in gone
        ]
        for size in range(len(lower) + 1):
            for found in itertools.combinations(lower, size):
                if self._fits(asked, name, {*gone, *found}):
                    return found
        return None

    def _fits(self, asked: Asked, name: str, without: set[str]) -> bool:
        total = self._truth.uses(name, surely=True, without=without)
        return self._truth.allowed(asked.pod, name, total, asked.caller.quota, without=without)

    def _holds(self, uid: str) -> bool:
        pod = self._truth.pod(uid)
        return pod is not None and bool(self._truth.holds(pod, surely=True))
