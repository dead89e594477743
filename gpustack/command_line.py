"""How our commands read their words: they neither guess a word nor pass one over."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

_GIVEN = "given_options"


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and takes no abbreviations.

    An abbreviation that works today is ambiguous with the next release's option. An option that
    takes one value is refused where it stands twice: argparse would take the last one and say
    nothing of the others.
    """

    def __init__(self, **settings: object) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})  # type: ignore[arg-type]
        for name in (None, "store"):
            self.register("action", name, StoreOnce)

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class StoreOnce(argparse.Action):
    """Stores a value; a second one is an error."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002  # argparse's own signature
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002  # likewise
    ) -> None:
        """Store the value.

        Raises:
            argparse.ArgumentError: it was given before.
        """
        given: set[str] = vars(namespace).setdefault(_GIVEN, set())
        if self.dest in given:
            raise argparse.ArgumentError(self, "given twice; give it once")
        given.add(self.dest)
        setattr(namespace, self.dest, values)
