"""``gpustack completion bash|fish|zsh``: what the shell offers after ``gpustack``, by its parser.

The script is made from the very parser that reads the command line, so it can't fall behind:
commands, their options and the words that an option allows; files where there are no words.
zsh runs bash's script by its ``bashcompinit``; fish has a form of its own.
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

_SCRIPT: Final = """\
# {use}
_gpustack() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} command='' word words='' position
    for ((position = 1; position < COMP_CWORD; position++)); do
        word=${{COMP_WORDS[position]}}
        case "$command $word" in
            {walk}) command="${{command:+$command }}$word" ;;
        esac
    done
    case "$command ${{COMP_WORDS[COMP_CWORD - 1]}}" in
{options}
        *)
            case "$command" in
{commands}
            esac
            ;;
    esac
    # shellcheck disable=SC2207  # words hold no blanks, and zsh has no mapfile
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _gpustack gpustack
"""
_TOP_OPTIONS: Final = ("--help", "--version")
_PRELUDE: Final = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}
_USE: Final = {
    "bash": "source <(gpustack completion bash)",
    "fish": "gpustack completion fish | source",
    "zsh": "source <(gpustack completion zsh)",
}


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "completion",
        help="a script for the shell: words to complete",
        description="Print what makes a shell complete gpustack's words. Put into its start file:\n"
        + "\n".join(f"  {shell}: {use}" for shell, use in _USE.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=sorted(_USE))
    parser.set_defaults(commands=commands)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the script of one shell."""
    if chosen.shell == "fish":
        print(*_fish_script(chosen.commands), sep="\n")
    else:
        print(script(chosen.commands.choices, chosen.shell), end="")
    return 0


def script(parsers: dict[str, argparse.ArgumentParser], shell: str) -> str:
    """Return bash's or zsh's script for the commands of a parser."""
    found = [("", _words([*parsers, *_TOP_OPTIONS])), *_commands("", parsers)]
    walk = "|".join(shlex.quote(f"{above} {name}") for above, name in _names("", parsers))
    body = _SCRIPT.format(
        use=_USE[shell],
        walk=walk,
        options="\n".join(_options("", parsers)),
        commands="\n".join(f"                {shlex.quote(at)}) {does} ;;" for at, does in found),
    )
    return _PRELUDE[shell] + body


def _names(above: str, parsers: dict[str, argparse.ArgumentParser]) -> Iterator[tuple[str, str]]:
    """Yield each command with the commands before it."""
    for name, parser in parsers.items():
        yield above, name
        yield from _names(f"{above} {name}".strip(), _below(parser))


def _commands(above: str, parsers: dict[str, argparse.ArgumentParser]) -> Iterator[tuple[str, str]]:
    """Yield each command with what may follow it."""
    for name, parser in parsers.items():
        at = f"{above} {name}".strip()
        words = [text for action in parser._actions for text in action.option_strings]
        words.extend(str(c) for a in _positional(parser) for c in a.choices or ())
        yield at, _words(words)
        yield from _commands(at, _below(parser))


def _options(above: str, parsers: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Yield a line for each option that takes a value."""
    for name, parser in parsers.items():
        at = f"{above} {name}".strip()
        for action in parser._actions:
            if action.option_strings and action.nargs != 0:
                texts = "|".join(shlex.quote(f"{at} {text}") for text in action.option_strings)
                yield f"        {texts}) {_value(action)} ;;"
        yield from _options(at, _below(parser))


def _value(action: argparse.Action) -> str:
    if action.choices:
        return _words(str(choice) for choice in action.choices)
    return "words=''"  # no words: the shell offers files


def _words(words: Sequence[str] | Iterator[str]) -> str:
    return f"words={shlex.quote(' '.join(words))}"


def _fish_script(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> Iterator[str]:
    yield f"# {_USE['fish']}"
    for word in _TOP_OPTIONS:
        yield _line("__fish_use_subcommand", "-l", word.removeprefix("--"))
    yield from _fish((), commands)


def _fish(
    above: tuple[str, ...], commands: "argparse._SubParsersAction[argparse.ArgumentParser]"
) -> Iterator[str]:
    """Yield a line for each command and each of its options, with what the help says of it."""
    seen = [f"__fish_seen_subcommand_from {name}" for name in above]
    names = " ".join(commands.choices)
    here = "; and ".join([*seen, f"not __fish_seen_subcommand_from {names}"])
    for each in commands._choices_actions:
        yield _line(here, "-f", "-a", each.dest, "-d", each.help or "")
    for name, parser in commands.choices.items():
        at = "; and ".join([*seen, f"__fish_seen_subcommand_from {name}"])
        formatter = parser._get_formatter()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from _fish((*above, name), action)
            elif action.option_strings:
                told = ("-d", formatter._expand_help(action)) if action.help else ()
                yield _line(at, *_fish_option(action), *told)
            elif action.choices:
                yield _line(at, "-f", "-a", " ".join(map(str, action.choices)))


def _fish_option(action: argparse.Action) -> Iterator[str]:
    """Yield an option's names, and what its value may be: words, or a file."""
    for text in action.option_strings:
        yield from ("-l", text[2:]) if text.startswith("--") else ("-s", text[1:])
    if action.choices:
        yield from ("-x", "-a", " ".join(map(str, action.choices)))
    elif action.nargs != 0:
        yield "-r"


def _line(condition: str, *words: str) -> str:
    quoted = (word if word.startswith("-") else _quoted(word) for word in words)
    return f"complete -c gpustack -n {_quoted(condition)} {' '.join(quoted)}"


def _quoted(text: str) -> str:
    """Return a text in fish's single quotes, in which only these two have a meaning."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _positional(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a command's own commands (``card list``)."""
    for action in _positional(parser):
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
