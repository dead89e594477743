"""The protocol with one fault each, for the search to find.

Each is a rule of ``ledger.c`` or ``slot_lock.c`` left out or turned round. A search that finds
every one of them looks where it matters. The hook once had two of them.
"""

import dataclasses
from collections.abc import Callable, Mapping

from tests.hook.model import calls, slots, steps
from tests.hook.model.state import NONE, Moment

Run = Callable[[Moment], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One of them.

    Attributes:
        table: rows that differ from the code's.
        local: steps between rows that differ from the code's.
        says: part of the search's message.
    """

    table: Mapping[str, Run] = dataclasses.field(default_factory=dict)
    local: Mapping[str, Run] = dataclasses.field(default_factory=dict)
    says: str

    def rows(self) -> dict[str, steps.Step]:
        """Return the table's rows as a machine takes them."""
        row = steps.Step("", "", "", lambda _: None)
        return {
            label: calls.TABLE.get(label, row)._replace(run=run)
            for label, run in self.table.items()
        }


def _unlimited(moment: Moment) -> None:
    moment.set(limited=False)
    calls.TABLE["add used"].run(moment)


def _swap_without_looking_again(moment: Moment) -> None:
    """Charge on: the sum has moved, and the rest isn't compared with the limit again."""
    process = moment.process
    if moment.sum == process.now:
        calls.TABLE["add swap"].run(moment)
        return
    calls.TABLE["add swap"].run(moment)
    moment.set(limited=False)


def _store_sum(moment: Moment) -> None:
    moment.set(now=moment.sum)
    calls.TABLE["add swap"].run(moment)


def _swap_unhelped(moment: Moment) -> None:
    if moment.sum == moment.process.now:
        calls.TABLE["add swap"].run(moment)
        return
    moment.look()
    moment.go("add used")


def _used_then_swap(moment: Moment) -> None:
    calls.TABLE["add used"].run(moment)
    if moment.stack[-1] == "add delta":
        moment.go("add swap")


def _swap_then_delta(moment: Moment) -> None:
    fits = moment.sum == moment.process.now
    change, target = moment.process.change, moment.process.target
    calls.TABLE["add swap"].run(moment)
    if fits:
        moment.set(change=change, target=target)
        moment.stack.append("late delta")


def _late_delta(moment: Moment) -> None:
    moment.set_slot(moment.process.target, delta=moment.process.change)
    moment.stack.pop()


def _amount_worked_out_once(moment: Moment) -> None:
    """The share of a slot without an owner is returned as it was read before the lock."""
    units = moment.slots[moment.process.at].units
    calls.TABLE["reclaim share"].run(moment)
    if moment.stack[-1] == "add sum":
        moment.set(want=-units, change=-units)


def _add_used_as_told(moment: Moment) -> None:
    process = moment.process
    if process.want >= 0 or process.want == steps.ALL:
        calls.TABLE["add used"].run(moment)
        return
    after = process.now._replace(
        units=max(0, process.now.units + process.want),
        slot=process.target,
        sequence=moment.next_sequence(process.target),
    )
    moment.set(change=process.want, after=after)
    moment.go("add delta")


def _share_always(moment: Moment) -> None:
    index = moment.process.at
    moment.set_slot(index, readers=moment.slots[index].readers | 1 << slots.looking_file(moment))
    steps.add(moment, index, steps.ALL, limited=False, then="reclaim contexts")


def _share_alone(moment: Moment) -> None:
    slot = moment.slots[moment.process.at]
    if slot.readers:
        moment.set(at=moment.process.at + 1)
        moment.go("reclaim next")
    else:
        calls.TABLE["reclaim share"].run(moment)


def _share_or_wait(moment: Moment) -> None:
    if moment.slots[moment.process.at].writer == NONE:
        calls.TABLE["reclaim share"].run(moment)


def _own_at_once(moment: Moment) -> None:
    slot = moment.slots[moment.process.at]
    if slot.readers or slot.writer != NONE:
        slots.next_to_take(moment)
    else:
        _own_in_any_case(moment)


def _own_in_any_case(moment: Moment) -> None:
    index = moment.process.at
    moment.set_slot(index, readers=0, writer=slots.file_of(moment))
    moment.set(slot=index)
    moment.go("take close")


def _refuse_at_once(moment: Moment) -> None:
    if moment.process.result:
        calls.LOCAL["charge first"](moment)
    else:
        calls.LOCAL["charge second"](moment)


def _look_without_completing(moment: Moment) -> None:
    moment.go("reclaim next")


def _apply_without_a_look(moment: Moment) -> None:
    slot = moment.slots[moment.process.carried.slot]
    moment.set(before=(slot.units, slot.sequence))
    moment.go("complete delta")


def _store_used(moment: Moment) -> None:
    slot = moment.slots[moment.process.carried.slot]
    units, sequence = moment.process.before
    moment.set_slot(
        moment.process.carried.slot,
        units=max(0, units + moment.process.read_delta),
        sequence=max(sequence + 1, slot.sequence),
    )
    moment.leave()


FAULTS: dict[str, Fault] = {
    "the sum is compared with the limit after it was raised": Fault(
        table={"add used": _unlimited}, says="charged of"
    ),
    "a sum that moved is not compared again": Fault(
        table={"add swap": _swap_without_looking_again}, says="charged of"
    ),
    "the sum is stored, not swapped": Fault(table={"add swap": _store_sum}, says="the slots say"),
    "the sum moves on before its operation was completed": Fault(
        table={"add swap": _swap_unhelped}, says="the slots say"
    ),
    "the delta is written after the sum": Fault(
        table={
            "add used": _used_then_swap,
            "add swap": _swap_then_delta,
            "late delta": _late_delta,
        },
        says="the slots say",
    ),
    "what a dead process held is returned by an amount that was read before": Fault(
        table={"reclaim share": _amount_worked_out_once, "add used": _add_used_as_told},
        says="the slots say",
    ),
    "the living are taken for dead": Fault(table={"reclaim share": _share_always}, says="charged"),
    "only one may return what a dead process held, and others pass by (once ours)": Fault(
        table={"reclaim share": _share_alone}, says="had fitted"
    ),
    "a slot is taken before it was cleared (once ours)": Fault(
        table={"take share": _own_at_once}, says="had fitted"
    ),
    "a slot is taken while others return what it held": Fault(
        table={"take own": _own_in_any_case}, says=""
    ),
    "a request is refused without a look for the dead": Fault(
        local={"charge first": _refuse_at_once}, says="had fitted"
    ),
    "the dead are looked for before the last operation was completed": Fault(
        table={"reclaim sum": _look_without_completing}, says="of the dead still count"
    ),
    "an operation is carried out though it was already": Fault(
        table={"complete used": _apply_without_a_look}, says="the slots say"
    ),
    "an operation is stored, not swapped, into its slot": Fault(
        table={"complete swap": _store_used}, says="the slots say"
    ),
    "the dead are looked for until no process has a lock": Fault(
        table={"reclaim share": _share_or_wait}, says="waits for ever"
    ),
}
