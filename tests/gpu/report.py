"""Keeps figures as they come: a run that is stopped has them up to then."""

import contextlib
import datetime
import pathlib

from tests.benchmarks.gpu import Figures, Table, decode, encode


class Report:
    """The figures of one card, in a file.

    Args:
        file: where they are kept; figures of the same card and machine that it holds are kept too.
        card: the card's name.
        machine: driver and kernel.
        bounds: whether a figure beyond its bound fails the check. On a simulated card
            it needn't: what is measured there is also how busy this machine's cores are.
    """

    def __init__(self, file: pathlib.Path, *, card: str, machine: str, bounds: bool) -> None:
        day = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
        self.figures = Figures(card=card, machine=machine, day=day)
        self._file = file
        self._bounds = bounds
        with contextlib.suppress(OSError, ValueError):
            earlier = decode(file.read_text())
            if (earlier.card, earlier.machine) == (card, machine):
                self.figures = earlier
                self.figures.day = day

    def put(self, title: str, row: str, **columns: str) -> None:
        """Set figures of a row; underscores in a column's name stand for spaces."""
        self.figures.put(title, row, **columns)
        self._save()

    def note(self, title: str, text: str) -> None:
        """Say what a reader of a table has to know."""
        self.figures.tables.setdefault(title, Table()).note = text
        self._save()

    def tell_agent(self, variable: str, value: bool | int) -> None:
        """Set a variable of the role gpustack_agent for hosts with such cards."""
        self.figures.variables[variable] = value
        self._save()

    def left_out(self, name: str, why: str) -> None:
        """Say that a check has not run."""
        self.figures.not_run[name] = why
        self._save()

    def has_run(self, name: str) -> None:
        """Say that a check has run, whatever came of it."""
        if self.figures.not_run.pop(name, None) is not None:
            self._save()

    def at_most(self, what: str, value: float, bound: float) -> None:
        """Fail where a figure is beyond its bound."""
        assert not self._bounds or value <= bound, f"{what}: {value:.2f}, at most {bound}"

    def _save(self) -> None:
        partial = self._file.with_name(f"{self._file.name}.new")
        partial.write_text(encode(self.figures))
        partial.rename(self._file)
