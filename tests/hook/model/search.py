"""Every interleaving of a machine's processes, with kills and forks at every point.

Depth first, each state once. States are numbered parts, so that a state is a short tuple and one
process's effect on one ledger is worked out once. A way back to a state on the path is a wait
without an end: every call is a part of a script, and scripts end.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from tests.hook.model.machine import Machine
from tests.hook.model.state import Broken, Process, Shared

Thing = TypeVar("Thing")
State = tuple[int, ...]  # the number of a Shared, then those of the processes


class Numbers(Generic[Thing]):
    """Things by number, equal ones by the same."""

    def __init__(self) -> None:
        self._numbers: dict[Thing, int] = {}
        self.things: list[Thing] = []

    def of(self, thing: Thing) -> int:
        """Return the thing's number, a new one where it is seen for the first time."""
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Events beside the processes' own steps.

    Attributes:
        first: calls that each process has done before the search begins.
        mortal: processes that may be killed, at any point.
        forks: (parent, child): the child begins with a fork of the parent, at any point.
        spurious: how often the weak swap of each process may fail without a reason.
    """

    first: Sequence[int] = ()
    mortal: frozenset[int] = frozenset()
    forks: tuple[tuple[int, int], ...] = ()
    spurious: int = 0


class Search:
    """The states of one machine.

    Args:
        machine: the machine to search.
        plan: the events beside its steps.
    """

    def __init__(self, machine: Machine, plan: Plan | None = None) -> None:
        self.machine = machine
        self.plan = plan or Plan()
        self.shared: Numbers[Shared] = Numbers()
        self.processes: Numbers[Process] = Numbers()
        self._steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._kills: dict[tuple[int, int], tuple[int, int]] = {}
        self._forks: dict[tuple[int, int, int], int] = {}
        self._checked: set[tuple[int, int]] = set()
        self._shared_checked = 0
        self.states = 0

    def run(self) -> int:
        """Look at every state and return how many there are.

        Raises:
            Broken: one of them breaks a rule; the message ends with the way there.
        """
        begin = self._begin()
        path: list[tuple[State, str, Iterator[tuple[str, State]]]] = []
        on_path: set[State] = {begin}
        done: set[State] = set()
        try:
            self._check(begin)
            path.append((begin, "", self._next(begin)))
            while path:
                state, _, following = path[-1]
                for who, then in following:
                    if then in on_path:
                        message = f"{who} waits for ever"
                        raise Broken(message)
                    if then not in done:
                        path.append((then, who, iter(())))  # named before it is looked at
                        self._check(then)
                        path[-1] = (then, who, self._next(then))
                        on_path.add(then)
                        break
                else:
                    done.add(state)
                    on_path.discard(state)
                    path.pop()
        except Broken as broken:
            way = "\n".join(who for _, who, _ in path[1:])
            message = f"{broken}, after\n{way}"
            raise Broken(message) from broken
        self.states = len(done)
        return self.states

    def _begin(self) -> State:
        shared = self.machine.start()
        processes = []
        for number in range(self.machine.bounds.processes):
            born = number not in {child for _, child in self.plan.forks}
            process = Process(number=number, alive=born, born=born)
            calls = self.plan.first[number] if number < len(self.plan.first) else 0
            while calls and not (process.position == calls and not process.stack):
                ((shared, process), _), *_ = self.machine.step(shared, process)
            processes.append(process._replace(spurious=self.plan.spurious if born else 0))
        return (self.shared.of(shared), *map(self.processes.of, processes))

    def _check(self, state: State) -> None:
        while self._shared_checked < len(self.shared.things):
            self.machine.check_shared(self.shared.things[self._shared_checked])
            self._shared_checked += 1
        for number in state[1:]:
            if (state[0], number) not in self._checked:
                shared, process = self.shared.things[state[0]], self.processes.things[number]
                self.machine.check_process(shared, process)
                self._checked.add((state[0], number))

    def _next(self, state: State) -> Iterator[tuple[str, State]]:
        for place, number in enumerate(state[1:], 1):
            process = self.processes.things[number]
            if not self.machine.is_idle(process):
                for shared, then in self._stepped(state[0], number):
                    yield self._name(process), self._with(state, place, shared, then)
            if process.alive and process.number in self.plan.mortal:
                shared, then = self._killed(state[0], number)
                yield f"{process.number} is killed", self._with(state, place, shared, then)
        yield from self._forked(state)

    def _forked(self, state: State) -> Iterator[tuple[str, State]]:
        for parent, child in self.plan.forks:
            born = self.processes.things[state[1 + child]].born
            if born or not self.processes.things[state[1 + parent]].alive:
                continue
            if (state[0], parent, child) not in self._forks:
                shared = self.machine.fork(self.shared.things[state[0]], parent, child)
                self._forks[state[0], parent, child] = self.shared.of(shared)
            begins = self.processes.of(Process(number=child))
            then = self._with(state, 1 + child, self._forks[state[0], parent, child], begins)
            yield f"{parent} forks {child}", then

    def _with(self, state: State, place: int, shared: int, process: int) -> State:
        return (shared, *state[1:place], process, *state[place + 1 :])

    def _name(self, process: Process) -> str:
        return f"{process.number}: {self.machine.label(process)}"

    def _stepped(self, shared: int, process: int) -> list[tuple[int, int]]:
        found = self._steps.get((shared, process))
        if found is None:
            outcomes = self.machine.step(self.shared.things[shared], self.processes.things[process])
            found = [
                (self.shared.of(one), self.processes.of(other)) for (one, other), _ in outcomes
            ]
            self._steps[shared, process] = found
        return found

    def _killed(self, shared: int, process: int) -> tuple[int, int]:
        found = self._kills.get((shared, process))
        if found is None:
            one, other = self.machine.kill(
                self.shared.things[shared], self.processes.things[process]
            )
            found = (self.shared.of(one), self.processes.of(other))
            self._kills[shared, process] = found
        return found
