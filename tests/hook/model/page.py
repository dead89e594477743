"""The pages with two slots: an agent that writes, may die and start again; a hook that reads.

Every word that is written or copied is a step of its own: ``pwrite`` and ``memcpy`` are many. The
checksum is taken for perfect. The writer's steps are ``gpustack/adapters/mapped/files.py``'s
``_publish``, the reader's ``shared_page_refresh`` of ``hook/src/shared/shared_page.c``;
``test_ledger_model.py`` looks at the former,
``hook/tests/shared/test_pages_never_published_are_not_read.c`` at the latter.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from tests.hook.model.state import Broken

ATTEMPTS = 4  # READ_ATTEMPTS of shared_page.c


class PageSlot(NamedTuple):
    """One slot; its checksum is the value that it was made of."""

    generation: int
    checksum: tuple[int, int]
    words: tuple[int, int]


class Page(NamedTuple):
    """The file, and which of the writer's values were ever published."""

    published: int
    slots: tuple[PageSlot, PageSlot]
    ever: frozenset[int]


class Writer(NamedTuple):
    """An agent. ``value`` counts its attempts to publish."""

    value: int = 0
    step: int = 0
    idle: int = 0
    generation: int = 0


class Reader(NamedTuple):
    """A hook. ``copy`` is the part of a slot that it has read so far; each checksum is one step."""

    step: str = "published"
    calls: int = 0
    attempts: int = 0
    published: int = 0
    copy: tuple[tuple[int, ...], ...] = ()
    body: int = 0
    of_slot: tuple[int, int] = (-1, -1)  # published and generation of the body


State = tuple[Page, Writer, Reader]
FIRST = Page(
    0, (PageSlot(1, (1, 0), (0, 0)), PageSlot(0, (0, 0), (0, 0))), frozenset({0})
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """One search.

    Attributes:
        values: how often the writer publishes, or dies of it.
        calls: how often the reader looks.
        looks_again: whether the reader looks at `published` and `generation` after its copy too.
        counts_all: whether the generation of a dead writer is passed over.
        fills_idle: whether the writer fills the idle slot, and not the published one.
        checks: whether the reader checks its copy.
    """

    values: int
    calls: int
    looks_again: bool = True
    counts_all: bool = True
    fills_idle: bool = True
    checks: bool = True

    def run(self) -> int:
        """Look at every state and return how many there are.

        Raises:
            Broken: the reader took a value that was torn or never published, went back to an older
                value, or misses the published one when no writer is left.
        """
        seen: set[State] = set()
        waiting: list[State] = [(FIRST, Writer(), Reader(of_slot=(0, 1)))]
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            page, writer, reader = state
            self._check_last_look(page, reader)
            for wrote, became in self._write(page, writer):
                waiting.append((wrote, became, reader))
            if reader.calls < self.calls:
                waiting.append((page, writer, self._read(page, reader)))
        return len(seen)

    def _write(self, page: Page, writer: Writer) -> Iterator[tuple[Page, Writer]]:
        if writer.value == self.values and writer.step == 0:
            return
        if writer.step == 0:
            slot = page.published if not self.fills_idle else 1 - page.published
            generation = page.slots[page.published].generation
            if self.counts_all:
                generation = max(each.generation for each in page.slots)
            yield page, Writer(writer.value + 1, 1, slot, generation + 1)
            return
        yield page, Writer(writer.value)  # it dies, and another one starts
        yield (
            self._written(page, writer),
            (Writer(writer.value) if writer.step == 5 else writer._replace(step=writer.step + 1)),
        )

    def _written(self, page: Page, writer: Writer) -> Page:
        slot, value = page.slots[writer.idle], writer.value
        match writer.step:
            case 1:
                slot = slot._replace(generation=writer.generation)
            case 2:
                slot = slot._replace(checksum=(writer.generation, value))
            case 3:
                slot = slot._replace(words=(value, slot.words[1]))
            case 4:
                slot = slot._replace(words=(slot.words[0], value))
            case _:
                return page._replace(published=writer.idle, ever=page.ever | {value})
        slots = (slot, page.slots[1]) if writer.idle == 0 else (page.slots[0], slot)
        return page._replace(slots=slots)

    def _read(self, page: Page, reader: Reader) -> Reader:
        if reader.step == "copy":
            return self._copy(page, reader)
        if reader.step.startswith("check"):
            return self._checked(page, reader)
        return self._look(page, reader)

    def _look(self, page: Page, reader: Reader) -> Reader:
        if reader.step == "published":
            return reader._replace(step="generation", published=page.published, copy=())
        if reader.of_slot == (reader.published, page.slots[reader.published].generation):
            return self._end(reader)
        return reader._replace(step="copy")

    def _copy(self, page: Page, reader: Reader) -> Reader:
        slot = page.slots[reader.published]
        words = ((slot.generation,), slot.checksum, slot.words[:1], slot.words[1:])
        copy = (*reader.copy, words[len(reader.copy)])
        return reader._replace(copy=copy, step="copy" if len(copy) < len(words) else "check")

    def _checked(self, page: Page, reader: Reader) -> Reader:
        (generation,), checksum, (one,), (other,) = reader.copy
        fits, then = {
            "check": (not self.checks or (checksum == (generation, one) and one == other),
                      "check published" if self.looks_again else ""),
            "check published": (page.published == reader.published, "check generation"),
            "check generation": (page.slots[reader.published].generation == generation, ""),
        }[reader.step]  # fmt: skip
        if not fits:
            return self._again(reader)
        return reader._replace(step=then) if then else self._taken(page, reader)

    def _again(self, reader: Reader) -> Reader:
        if reader.attempts + 1 == ATTEMPTS:
            return self._end(reader)
        return reader._replace(step="published", attempts=reader.attempts + 1, copy=())

    def _taken(self, page: Page, reader: Reader) -> Reader:
        (generation,), _, (one,), (other,) = reader.copy
        if one != other:
            message = f"a torn page was taken: {one} and {other}"
            raise Broken(message)
        if one not in page.ever:
            message = f"{one} was taken, and never published"
            raise Broken(message)
        if one < reader.body:
            message = f"{one} was taken after {reader.body}"
            raise Broken(message)
        return self._end(reader._replace(body=one, of_slot=(reader.published, generation)))

    def _end(self, reader: Reader) -> Reader:
        return Reader(calls=reader.calls + 1, body=reader.body, of_slot=reader.of_slot)

    def _check_last_look(self, page: Page, reader: Reader) -> None:
        """Check that a call finds the published value while no writer is in the way."""
        if reader.step != "published" or reader.attempts:
            return
        alone = reader._replace(calls=0)
        while alone.calls == 0:
            alone = self._read(page, alone)
        published = page.slots[page.published].words[0]
        if alone.body != published:
            message = f"{published} is published, and {alone.body} is in force"
            raise Broken(message)
