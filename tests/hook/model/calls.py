"""Calls as the gates make them, and the table of all rows.

``LOCAL`` has the code's own steps between two of them.
"""

from collections.abc import Callable

from tests.hook.model import slots, steps
from tests.hook.model.state import NONE, Broken, Moment

# ---- card_limits.c: card_limits_charge and card_limits_return; account.c: account_view


def _charge_first(moment: Moment) -> None:
    if moment.process.result:
        _given(moment)
    else:
        moment.call("reclaim open", "charge again")


def _charge_again(moment: Moment) -> None:
    process = moment.process
    steps.add(moment, process.slot, process.amount, limited=True, then="charge second")


def _charge_second(moment: Moment) -> None:
    if moment.process.result:
        _given(moment)
        return
    process = moment.process
    units = process.now.units - process.dead_units + process.amount
    if units <= moment.bounds.limit:
        message = f"process {process.number} was refused {process.amount}: {units} had fitted"
        raise Broken(message)
    moment.leave()


def _given(moment: Moment) -> None:
    moment.set(held=moment.process.held + moment.process.amount)
    moment.leave()


def _looked(moment: Moment) -> None:
    left = moment.still_dead()
    if left:
        message = f"process {moment.process.number} looked, and {left} of the dead still count"
        raise Broken(message)
    moment.leave()


def _exec(moment: Moment) -> None:
    moment.lose_own()
    moment.set(held=0, slot=NONE)
    moment.leave()


TABLE: dict[str, steps.Step] = {
    **steps.CHARGE,
    **slots.SLOTS,
    "exec": steps.Step("main", "exec", "process", _exec),
}

LOCAL: dict[str, Callable[[Moment], None]] = {
    "add over": lambda moment: moment.leave(),
    "reclaim next": slots.reclaim_next,
    "charge first": _charge_first,
    "charge again": _charge_again,
    "charge second": _charge_second,
    "looked": _looked,
    "returned": lambda moment: moment.leave(),
}
