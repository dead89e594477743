"""Liveness and reclaim: how ``ledger.c`` and ``slot_lock.c`` take, clear and leave slots."""

from collections.abc import Callable

from tests.hook.model.state import NONE, Moment
from tests.hook.model.steps import ALL, Step, add, complete_now

# ---- ledger.c: ledger_open, with slot_lock.c: slot_lock_take


def file_of(moment: Moment) -> int:
    """Return the file that the process's mapping keeps."""
    return moment.process.number


def looking_file(moment: Moment) -> int:
    """Return the file by which the process looks at others' slots."""
    return moment.bounds.processes + moment.process.number


def _mapping(moment: Moment) -> int:
    return 1 << moment.process.number


def _descriptor(moment: Moment) -> int:
    return 1 << moment.bounds.processes + moment.process.number


def _open(moment: Moment) -> None:
    moment.files[file_of(moment)] |= _mapping(moment) | _descriptor(moment)
    moment.set(at=0)
    moment.go("take share")


def next_to_take(moment: Moment) -> None:
    """Go on to the next slot, where there is one."""
    index = moment.process.at + 1
    moment.set(at=index)
    moment.go("take share" if index < moment.bounds.slots else "open fails")


def _take_share(moment: Moment) -> None:
    index = moment.process.at
    fits = moment.slots[index].writer == NONE
    moment.detail = (index, int(fits))
    if fits:
        moment.set_slot(index, readers=moment.slots[index].readers | 1 << file_of(moment))
        moment.go("clear sum")
    else:
        next_to_take(moment)


def _clear_used(moment: Moment) -> None:
    index = moment.process.at
    moment.detail = (index, moment.slots[index].units)
    if moment.slots[index].units != moment.process.held:
        add(moment, index, ALL, limited=False, then="clear contexts")
    else:
        moment.go("take own" if moment.process.held else "clear time")


def _take_own(moment: Moment) -> None:
    index = moment.process.at
    mine = 1 << file_of(moment)
    fits = moment.slots[index].readers == mine and moment.slots[index].writer == NONE
    moment.detail = (index, int(fits))
    if fits:
        moment.set_slot(index, readers=0, writer=file_of(moment))
        moment.set(slot=index)
        moment.go("take close")
    else:
        moment.go("take release")


def _take_release(moment: Moment) -> None:
    index = moment.process.at
    moment.detail = (index, 0)
    moment.set_slot(index, readers=moment.slots[index].readers & ~(1 << file_of(moment)))
    next_to_take(moment)


def _take_close(moment: Moment) -> None:
    moment.close(file_of(moment), _descriptor(moment))
    moment.go("settle sum")


def _open_fails(moment: Moment) -> None:
    moment.close(file_of(moment), _mapping(moment) | _descriptor(moment))
    moment.set(result=False)
    moment.leave()


def _settle_used(moment: Moment) -> None:
    slot, held = moment.process.slot, moment.process.held
    moment.detail = (slot, moment.slots[slot].units)
    if moment.slots[slot].units == held:
        moment.go("settle contexts")
    else:
        want = held - moment.slots[slot].units
        add(moment, slot, want, limited=False, then="settle contexts")


def _settle_contexts(moment: Moment) -> None:
    moment.detail = (moment.process.slot, 0)
    moment.set(result=True)
    moment.leave()


# ---- ledger.c: ledger_reclaim


def _reclaim_open(moment: Moment) -> None:
    moment.files[looking_file(moment)] |= _descriptor(moment)
    moment.set(at=0)
    moment.go("reclaim sum")


def _next_to_reclaim(moment: Moment) -> None:
    moment.set(at=moment.process.at + 1)
    moment.go("reclaim next")


def reclaim_next(moment: Moment) -> None:
    """Skips the process's own slot, without a look at it."""
    if moment.process.at == moment.process.slot:
        _next_to_reclaim(moment)
    elif moment.process.at == moment.bounds.slots:
        moment.go("reclaim close")
    else:
        moment.go("reclaim used")


def _reclaim_used(moment: Moment) -> None:
    index = moment.process.at
    moment.detail = (index, moment.slots[index].units)
    if moment.slots[index].units:
        moment.go("reclaim share")
    else:
        _next_to_reclaim(moment)


def _reclaim_share(moment: Moment) -> None:
    index = moment.process.at
    slot = moment.slots[index]
    fits = slot.writer == NONE
    moment.detail = (index, int(fits))
    if fits:
        moment.set_slot(index, readers=slot.readers | 1 << looking_file(moment))
        add(moment, index, ALL, limited=False, then="reclaim contexts")
    else:
        _next_to_reclaim(moment)


def _contexts(after: str) -> Callable[[Moment], None]:
    """Contexts and open time decide nothing about memory; the code has these rows."""

    def run(moment: Moment) -> None:
        moment.detail = (moment.process.at, 0)
        moment.go(after)

    return run


def _reclaim_unlock(moment: Moment) -> None:
    index = moment.process.at
    moment.detail = (index, 0)
    mine = 1 << looking_file(moment)
    moment.set_slot(index, readers=moment.slots[index].readers & ~mine)
    _next_to_reclaim(moment)


def _reclaim_close(moment: Moment) -> None:
    moment.close(looking_file(moment), _descriptor(moment))
    moment.leave()


SLOTS: dict[str, Step] = {
    "open": Step("ledger_open", "open", "file", _open),
    "take share": Step("take_first_free", "share", "lock", _take_share),
    "clear sum": Step("clear_slot", "load", "sum", lambda m: complete_now(m, "clear used")),
    "clear used": Step("ledger_used", "load", "used", _clear_used),
    "clear contexts": Step("return_slot", "store", "contexts", _contexts("clear time")),
    "clear time": Step("take_open", "exchange", "open", _contexts("take own")),
    "take own": Step("take_first_free", "lock", "lock", _take_own),
    "take release": Step("take_first_free", "unlock", "lock", _take_release),
    "take close": Step("slot_lock_take", "close", "file", _take_close),
    "open fails": Step("slot_lock_take", "close", "file", _open_fails),
    "settle sum": Step("settle_slot", "load", "sum", lambda m: complete_now(m, "settle used")),
    "settle used": Step("ledger_used", "load", "used", _settle_used),
    "settle contexts": Step("settle_own", "store", "contexts", _settle_contexts),
    "reclaim open": Step("slot_lock_borrow_descriptor", "open", "file", _reclaim_open),
    "reclaim sum": Step("ledger_reclaim", "load", "sum", lambda m: complete_now(m, "reclaim next")),
    "reclaim used": Step("ledger_used", "load", "used", _reclaim_used),
    "reclaim share": Step("slot_lock_share_other", "share", "lock", _reclaim_share),
    "reclaim contexts": Step("return_slot", "store", "contexts", _contexts("reclaim time")),
    "reclaim time": Step("take_open", "exchange", "open", _contexts("reclaim unlock")),
    "reclaim unlock": Step("slot_lock_unshare_other", "unlock", "lock", _reclaim_unlock),
    "reclaim close": Step("slot_lock_give_back_descriptor", "close", "file", _reclaim_close),
}
