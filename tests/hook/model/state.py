"""The words that processes share, those that each keeps, and how an operation changes both.

One card. A file here is an open file description: process ``p`` has file ``p``, which its mapping
keeps and which holds its slot, and file ``count + p`` while it looks at others' slots. Locks belong
to files, and go with the last reference to one: a mapping, a descriptor, or a child's copy of that.
Fields that start with ``of_`` or say so are the checker's own; no operation reads them.
"""

from typing import Any, NamedTuple

NONE = -1


class Sum(NamedTuple):
    """The word ``sum``."""

    units: int
    slot: int
    sequence: int


class Slot(NamedTuple):
    """One process's entry, and the locks on its byte."""

    units: int = 0
    sequence: int = 0
    delta: int = 0
    writer: int = NONE  # a file
    readers: int = 0  # files, as bits
    of_process: int = NONE  # whose memory the units are


class Shared(NamedTuple):
    """The ledger of one card, and the processes that have it open."""

    sum: Sum
    slots: tuple[Slot, ...]
    # for each file the references to it, as bits: the mapping of p, then the descriptor of p
    files: tuple[int, ...]


class Process(NamedTuple):
    """The state of one process. ``stack`` names the next operation, and where it returns to."""

    number: int
    alive: bool = True
    born: bool = True  # otherwise a fork may still make it
    stack: tuple[str, ...] = ()
    position: int = 0  # in its script
    held: int = 0  # given by the driver
    amount: int = 0  # of the call under way
    slot: int = NONE
    at: int = 0  # the slot that is looked at
    now: Sum = Sum(0, 0, 0)
    carried: Sum = Sum(0, 0, 0)
    before: tuple[int, int] = (0, 0)
    read_delta: int = 0
    target: int = 0
    want: int = 0
    limited: bool = False
    change: int = 0
    after: Sum = Sum(0, 0, 0)
    of_slots: int = 0  # units that its look at the slots has found so far
    next_slot: int = 0  # of that look
    result: bool = False
    spurious: int = 0  # failures of a weak swap without a reason that may still come
    # of the checker: for each slot the sequence of a dead process's charge when the call began
    dead: tuple[int, ...] = ()
    dead_units: int = 0  # that were still in the sum when `now` was read

    def between_calls(self) -> "Process":
        """Return the state that a process keeps from one call to the next."""
        return Process(
            number=self.number, alive=self.alive, position=self.position, held=self.held,
            slot=self.slot, spurious=self.spurious,
        )  # fmt: skip


class Bounds(NamedTuple):
    """The size of one search."""

    processes: int
    slots: int
    limit: int
    sum_sequences: int = 1 << 20


class Broken(Exception):
    """A state that breaks a rule."""


class Moment:
    """A process and the shared words while one operation changes them."""

    def __init__(self, bounds: Bounds, shared: Shared, process: Process) -> None:
        self.bounds = bounds
        self.sum = shared.sum
        self.slots = list(shared.slots)
        self.files = list(shared.files)
        self.process = process
        self.stack = list(process.stack)
        self.detail: tuple[int, int] = (NONE, 0)  # the slot and the outcome of the operation

    def freeze(self) -> tuple[Shared, Process]:
        """Return both after the operation."""
        shared = Shared(self.sum, tuple(self.slots), tuple(self.files))
        return shared, self.process._replace(stack=tuple(self.stack))

    def set(self, **fields: Any) -> None:
        """Change the process's state."""
        self.process = self.process._replace(**fields)

    def set_slot(self, slot: int, **fields: Any) -> None:
        """Change one slot."""
        self.slots[slot] = self.slots[slot]._replace(**fields)

    def go(self, label: str) -> None:
        """Do ``label`` next."""
        self.stack[-1] = label

    def call(self, label: str, then: str) -> None:
        """Do ``label`` next, and ``then`` when that has returned."""
        self.stack[-1:] = [then, label]

    def leave(self) -> None:
        """Return to the caller. The values of the function that ends are forgotten.

        So states are equal where they differ in such values only.
        """
        ended = self.stack.pop()
        if ended.startswith("complete"):
            self.set(carried=Sum(0, 0, 0), before=(0, 0), read_delta=0)
        if ended.startswith("add"):
            self.set(target=0, want=0, change=0, after=Sum(0, 0, 0), limited=False)

    def next_sequence(self, slot: int) -> int:
        """Return the sequence that ``sum`` shows for the slot's next operation."""
        return (self.slots[slot].sequence + 1) % self.bounds.sum_sequences

    def effective(self, slot: int) -> tuple[int, int]:
        """Return the units and sequence of a slot, with the operation that only ``sum`` shows."""
        entry = self.slots[slot]
        if self.sum.slot == slot and self.sum.sequence == self.next_sequence(slot):
            return entry.units + entry.delta, entry.sequence + 1
        return entry.units, entry.sequence

    def is_gone(self, process: int) -> bool:
        """Return whether the last reference to the process's file, and so to its slot, is gone."""
        return self.files[process] == 0

    def note_dead(self) -> None:
        """Remember the charge of dead processes as a call begins."""
        dead = []
        for slot, entry in enumerate(self.slots):
            units, sequence = self.effective(slot)
            gone = entry.of_process != NONE and self.is_gone(entry.of_process)
            dead.append(sequence if gone and units > 0 else NONE)
        self.set(dead=tuple(dead))

    def still_dead(self) -> int:
        """Return how much of that charge is in the sum still."""
        held = 0
        for slot, sequence in enumerate(self.process.dead):
            units, latest = self.effective(slot)
            held += units if sequence == latest else 0
        return held

    def look(self) -> None:
        """Read ``sum`` into ``now``."""
        self.set(now=self.sum, dead_units=self.still_dead())

    def lose_own(self) -> None:
        """Drop the process's references to files, and the locks on files that it alone has."""
        number = self.process.number
        references = 1 << number | 1 << self.bounds.processes + number
        for file, kept in enumerate(self.files):
            self.files[file] = kept & ~references
            if kept and not self.files[file]:
                self._drop_locks(file)

    def close(self, file: int, reference: int) -> None:
        """Drop one reference."""
        self.files[file] &= ~reference
        if not self.files[file]:
            self._drop_locks(file)

    def _drop_locks(self, file: int) -> None:
        for slot, entry in enumerate(self.slots):
            if entry.writer == file:
                self.set_slot(slot, writer=NONE)
            if entry.readers & 1 << file:
                self.set_slot(slot, readers=entry.readers & ~(1 << file))
