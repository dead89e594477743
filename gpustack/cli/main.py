"""The composition root of the ``gpustack`` command.

Each command is a module with ``add`` (its part of the command line) and ``run`` (its answer).
Exit status: 0 yes, 1 no (with a reason), 2 wrong use or unreadable input. Errors go to stderr, one
line each.
"""

import argparse
import os
import pathlib
import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import argcomplete
from argcomplete.finders import safe_actions

import gpustack
from gpustack.cli import card, completion, explain, graph, reasons, snapshot, topo, usage
from gpustack.cli.doctor import doctor
from gpustack.cli.get import get
from gpustack.cli.output import printing
from gpustack.cli.plan import replay, what_if
from gpustack.cli.top import top
from gpustack.cli.version import version
from gpustack.command_line import Parser, StoreOnce
from gpustack.model.codes import MEANINGS, PAGE
from gpustack.model.errors import GpustackError

COMMANDS: Final = (
    topo, card, graph, doctor, get, usage, top, explain, what_if, replay, snapshot, version,
    completion,
)  # fmt: skip
_PLUGIN: Final = "kubectl-gpustack"  # as kubectl runs it for `kubectl gpustack`
_INTERRUPTED: Final = 128 + signal.SIGINT  # a shell's status for a program that a signal ended
_HELP: Final = """\
Shows the use of every GPU, why a pod waits, and the effect of more pods or nodes. Reads a cluster
or a snapshot of one; topo, doctor --host and version --host read this host, card, graph and top
ask its agent."""
_STATUS: Final = """\
exit status: 0 yes, 1 no (the answer says why), 2 wrong use or unreadable input
`gpustack help COMMAND` says more about each, `gpustack help CODE` what to do about a reason."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    top = Parser(
        prog="kubectl gpustack" if pathlib.Path(sys.argv[0]).name == _PLUGIN else "gpustack",
        description=_HELP,
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"gpustack {gpustack.__version__}")
    top.set_defaults(run=_help, parser=top)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        below = command.add(commands)
        below.set_defaults(run=command.run, parser=below)
    about = commands.add_parser(
        "help", help="the same as COMMAND --help; of a reason's code, what to do about it"
    )
    words = [*commands.choices, *map(str, MEANINGS)]
    about.add_argument(
        "about",
        metavar="COMMAND",
        nargs="?",
        type=lambda word: _topic(word, words, commands.choices),
        choices=words,  # for completion: what isn't one of them ends in _topic
    )
    about.set_defaults(run=lambda chosen: _help_about(top, commands.choices, chosen.about))
    return top


def _topic(word: str, words: Collection[str], commands: Iterable[str]) -> str:
    """Return the word; argparse's own refusal of an unknown one would list every code there is.

    Raises:
        argparse.ArgumentTypeError: it is neither a command nor a code.
    """
    if word in words:
        return word
    text = (
        f"{word!r} is no command ({', '.join(commands)}) and no code of {PAGE}; `gpustack card"
        " list` on a host says why its cards are closed"
    )
    raise argparse.ArgumentTypeError(text)


def _help(chosen: argparse.Namespace) -> int:
    """Print the help, as kubectl does without a command."""
    chosen.parser.print_help()
    return 0


def _help_about(
    top: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser], name: str | None
) -> int:
    """Print the help of a command or a reason, or of all without a name."""
    if name is not None and name not in commands:
        print(reasons.text(name))
    else:
        (commands[name] if name else top).print_help()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one question; return the exit status."""
    top = parser()
    safe_actions.add(StoreOnce)  # completers need the values of options
    argcomplete.autocomplete(top)  # ends the process where a shell asks for words
    chosen = top.parse_args(arguments)
    try:
        status: int = chosen.run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()  # `gpustack usage | head -1`: head has closed the pipe
        return 1
    except KeyboardInterrupt:
        _close_stdout()
        return _INTERRUPTED
    except GpustackError as error:
        printing.tell(error)
        return 2
    except OSError as error:  # inputs translate theirs; here the answer can't be written
        _close_stdout()
        printing.tell(f"can't write the answer: {error.strerror}")
        return 2
    return status


def _close_stdout() -> None:
    """Let the last flush at exit, which would complain again, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
