"""Charge and refund: ``complete`` and ``add_to_slot`` of ``hook/src/shared/ledger.c``, row by row.

A row is one operation on shared memory or locks: its function, its word, the operation and its
outcome. A process is stopped, killed or overtaken between two rows, where it touches no shared
word.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.hook.model.state import NONE, Moment

ALL = -1_000_000  # stands for the code's -UNITS_MASK: more than any slot holds


class Step(NamedTuple):
    """One row."""

    function: str
    operation: str
    word: str
    run: Callable[[Moment], None]


# ---- ledger.c: complete


def _complete_used(moment: Moment) -> None:
    process = moment.process
    slot = moment.slots[process.carried.slot]
    moment.detail = (process.carried.slot, slot.units)
    moment.set(before=(slot.units, slot.sequence))
    if moment.next_sequence(process.carried.slot) == process.carried.sequence:
        moment.go("complete delta")
    else:
        moment.leave()


def _complete_delta(moment: Moment) -> None:
    slot = moment.process.carried.slot
    moment.detail = (slot, moment.slots[slot].delta)
    moment.set(read_delta=moment.slots[slot].delta)
    moment.go("complete sum")


def _complete_sum(moment: Moment) -> None:
    moment.detail = (NONE, moment.sum.units)
    if moment.sum == moment.process.carried:
        moment.go("complete swap")
    else:
        moment.leave()


def _complete_swap(moment: Moment) -> None:
    process = moment.process
    number = process.carried.slot
    slot = moment.slots[number]
    fits = (slot.units, slot.sequence) == process.before
    moment.detail = (number, int(fits))
    if fits:
        units = max(0, slot.units + process.read_delta)
        moment.set_slot(number, units=units, sequence=slot.sequence + 1)
    moment.leave()


# ---- ledger.c: add_to_slot


def add(moment: Moment, target: int, want: int, *, limited: bool, then: str) -> None:
    """Call add_to_slot."""
    moment.set(target=target, want=want, limited=limited)
    moment.call("add sum", then)


def complete_now(moment: Moment, then: str) -> None:
    """Call complete with the sum as it is."""
    moment.detail = (NONE, moment.sum.units)
    moment.set(carried=moment.sum)
    moment.call("complete used", then)


def _add_sum(moment: Moment) -> None:
    moment.look()
    complete_now(moment, "add used")


def _add_used(moment: Moment) -> None:
    process = moment.process
    slot = moment.slots[process.target]
    moment.detail = (process.target, slot.units)
    change = max(process.want, -slot.units)
    total = max(0, process.now.units + change)
    if change == 0 or (process.limited and change > 0 and total > moment.bounds.limit):
        moment.set(result=change == 0)
        moment.leave()
        return
    after = process.now._replace(
        units=total, slot=process.target, sequence=moment.next_sequence(process.target)
    )
    moment.set(change=change, after=after, of_slots=0, next_slot=0)
    moment.go("add slots" if process.limited and change > 0 else "add delta")


def _add_slots(moment: Moment) -> None:
    process = moment.process
    units = moment.slots[process.next_slot].units
    moment.detail = (process.next_slot, units)
    moment.set(of_slots=process.of_slots + units, next_slot=process.next_slot + 1)
    if moment.process.next_slot == moment.bounds.slots:
        fits = moment.process.of_slots + process.change <= moment.bounds.limit
        moment.set(of_slots=0, next_slot=0)
        moment.go("add delta" if fits else "add again")


def _add_again(moment: Moment) -> None:
    moment.detail = (NONE, moment.sum.units)
    if moment.sum == moment.process.now:
        moment.set(result=False)
        moment.leave()
        return
    moment.look()
    complete_now(moment, "add used")


def _add_delta(moment: Moment) -> None:
    moment.detail = (moment.process.target, moment.process.change)
    moment.set_slot(moment.process.target, delta=moment.process.change)
    moment.go("add swap")


def _add_swap(moment: Moment) -> None:
    process = moment.process
    fits = moment.sum == process.now
    moment.detail = (NONE, int(fits))
    if not fits:
        moment.look()
        complete_now(moment, "add used")
        moment.detail = (NONE, 0)
        return
    moment.sum = process.after
    if process.change > 0:
        moment.set_slot(process.target, of_process=process.number)
    moment.set(carried=process.after, result=True)
    moment.call("complete used", "add over")


def add_swap_spuriously(moment: Moment) -> None:
    """A weak swap may fail though no process has changed the word (C11 7.17.7.4)."""
    moment.set(spurious=moment.process.spurious - 1, carried=moment.process.now)
    moment.call("complete used", "add used")


CHARGE: dict[str, Step] = {
    "complete used": Step("complete", "load", "used", _complete_used),
    "complete delta": Step("complete", "load", "delta", _complete_delta),
    "complete sum": Step("complete", "load", "sum", _complete_sum),
    "complete swap": Step("complete", "swap", "used", _complete_swap),
    "add sum": Step("add_to_slot", "load", "sum", _add_sum),
    "add used": Step("add_to_slot", "load", "used", _add_used),
    "add slots": Step("ledger_used", "load", "used", _add_slots),
    "add again": Step("add_to_slot", "load", "sum", _add_again),
    "add delta": Step("add_to_slot", "store", "delta", _add_delta),
    "add swap": Step("add_to_slot", "swap", "sum", _add_swap),
}
