"""Processes that run scripts of calls, the ways in which they end, and the rules that always hold.

A script is a list of calls as ``gpustack``'s gates make them: ``open`` (ledger_open), ``charge N``
(card_limits_charge), ``return N`` (card_limits_return, after the driver has freed), ``look``
(account_view), and ``exec``, which is no call of ours. A call begins with its first operation.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from tests.hook.model import calls, steps
from tests.hook.model.state import NONE, Bounds, Broken, Moment, Process, Shared, Slot, Sum

Call = tuple[str, int]
Outcome = tuple[Shared, Process]
# As much as one call can do alone: more is no end at all.
MANY_STEPS = 400
# A call that ends before its first operation, such as a return of a refused charge.
NOTHING = steps.Step("", "nothing", "", lambda _: None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One operation, as a process did it."""

    process: int
    function: str
    operation: str
    word: str
    slot: int  # -1: none
    outcome: int  # units that were read or written; 1 where a swap or a lock succeeded, else 0


def script(text: str) -> tuple[Call, ...]:
    """Return the calls that ``open, charge 2, return 1`` names."""
    words = (call.split() for call in text.split(",") if call.strip())
    return tuple((each[0], int(each[1]) if len(each) > 1 else 0) for each in words)


class Machine:
    """A container's processes and their ledger.

    Args:
        bounds: sizes.
        scripts: one a process.
        table: rows that stand in for those of the code.
        local: steps between rows that stand in for the code's.
    """

    def __init__(
        self,
        bounds: Bounds,
        scripts: list[str],
        *,
        table: Mapping[str, steps.Step] | None = None,
        local: Mapping[str, Callable[[Moment], None]] | None = None,
    ) -> None:
        self.bounds = bounds
        self.scripts = [script(text) for text in scripts]
        self.table = {**calls.TABLE, **(table or {})}
        self.local = {**calls.LOCAL, **(local or {})}

    def start(self) -> Shared:
        """Return an empty ledger."""
        return Shared(
            Sum(0, 0, 0), (Slot(),) * self.bounds.slots, (0,) * (2 * self.bounds.processes)
        )

    def is_idle(self, process: Process) -> bool:
        """Return whether a process has nothing more to do, or is none."""
        done = process.position == len(self.scripts[process.number])
        return not process.alive or (not process.stack and done)

    def label(self, process: Process) -> str:
        """Name the next operation of a process."""
        if process.stack:
            return process.stack[-1]
        name, amount = self.scripts[process.number][process.position]
        return f"begins {name} {amount}"

    def step(self, shared: Shared, process: Process) -> Iterator[tuple[Outcome, Event]]:
        """Yield each outcome of the process's next operation."""
        moment = self._begun(shared, process)
        label = moment.stack[-1] if moment.stack else ""
        if label == "add swap" and moment.process.spurious and moment.sum == moment.process.now:
            failing = self._begun(shared, process)
            steps.add_swap_spuriously(failing)
            yield self._ended(failing, label)
        if label:
            self.table[label].run(moment)
        yield self._ended(moment, label)

    def _ended(self, moment: Moment, label: str) -> tuple[Outcome, Event]:
        while moment.stack and moment.stack[-1] in self.local:
            self.local[moment.stack[-1]](moment)
        if not moment.stack:
            moment.process = moment.process.between_calls()
        step = self.table.get(label, NOTHING)
        number = moment.process.number
        event = Event(
            process=number, function=step.function, operation=step.operation, word=step.word,
            slot=moment.detail[0], outcome=moment.detail[1],
        )  # fmt: skip
        return moment.freeze(), event

    def _begun(self, shared: Shared, process: Process) -> Moment:
        moment = Moment(self.bounds, shared, process)
        if process.stack:
            return moment
        name, amount = self.scripts[process.number][process.position]
        moment.set(position=process.position + 1, amount=amount)
        moment.note_dead()
        getattr(self, f"_begin_{name}")(moment, amount)
        return moment

    def _begin_open(self, moment: Moment, _: int) -> None:
        moment.stack = ["returned", "open"]

    def _begin_charge(self, moment: Moment, amount: int) -> None:
        if moment.process.slot == NONE:
            return  # NOT_PERMITTED
        moment.stack = [""]
        steps.add(moment, moment.process.slot, amount, limited=True, then="charge first")

    def _begin_return(self, moment: Moment, amount: int) -> None:
        if moment.process.held < amount:
            return  # it was refused before
        moment.set(held=moment.process.held - amount)  # the driver has freed it already
        moment.stack = [""]
        steps.add(moment, moment.process.slot, -amount, limited=True, then="returned")

    def _begin_look(self, moment: Moment, _: int) -> None:
        moment.stack = ["looked", "reclaim open"]

    def _begin_exec(self, moment: Moment, _: int) -> None:
        moment.stack = ["exec"]

    def kill(self, shared: Shared, process: Process) -> Outcome:
        """Return the state after SIGKILL."""
        moment = Moment(self.bounds, shared, process)
        moment.lose_own()
        moment.process = Process(number=process.number, alive=False)
        return moment.freeze()

    def fork(self, shared: Shared, parent: int, child: int) -> Shared:
        """Return the state after another thread's fork: the child has the open descriptors."""
        of_parent, of_child = (1 << self.bounds.processes + each for each in (parent, child))
        files = tuple(kept | of_child if kept & of_parent else kept for kept in shared.files)
        return shared._replace(files=files)

    # ---- rules that hold always

    def check_shared(self, shared: Shared) -> None:
        """Check the ledger as it lies.

        Raises:
            Broken: more is charged than the limit, or the sum isn't that of the slots, or the
                charge of processes that are all gone can't be given back.
        """
        moment = Moment(self.bounds, shared, Process(number=0))
        total = sum(moment.effective(slot)[0] for slot in range(self.bounds.slots))
        if not 0 <= shared.sum.units <= self.bounds.limit:
            message = f"{shared.sum.units} charged of {self.bounds.limit}"
            raise Broken(message)
        if total != shared.sum.units:
            message = f"the slots say {total}, the sum {shared.sum.units}"
            raise Broken(message)
        if not any(shared.files):
            self._check_all_goes_back(shared)

    def _check_all_goes_back(self, shared: Shared) -> None:
        machine = Machine(
            self.bounds, ["look"] * self.bounds.processes, table=self.table, local=self.local
        )
        process = Process(number=0)
        for _ in range(MANY_STEPS):
            if machine.is_idle(process):
                break
            ((shared, process), _), *_ = machine.step(shared, process)
        left = [slot.units for slot in shared.slots]
        if shared.sum.units or any(left):
            message = f"all are dead, and {shared.sum.units} stay charged, {left} in the slots"
            raise Broken(message)

    def check_process(self, shared: Shared, process: Process) -> None:
        """Check one process against the ledger.

        Raises:
            Broken: a process between calls has another charge than the memory it holds, or doesn't
                hold the lock of its slot.
        """
        if not process.alive or process.slot == NONE:
            return
        slot = shared.slots[process.slot]
        charged, _ = Moment(self.bounds, shared, process).effective(process.slot)
        if slot.writer != process.number:
            message = f"process {process.number} lives, and its slot is free"
            raise Broken(message)
        if charged < process.held or (not process.stack and charged != process.held):
            message = f"process {process.number} holds {process.held} and is charged {charged}"
            raise Broken(message)
