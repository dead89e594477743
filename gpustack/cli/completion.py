"""``gpustack completion bash|fish|zsh``: the script with which a shell completes gpustack's words.

The shell asks the command's own parser at each completion, so the words are always its own.
"""

import argparse
from typing import Final

from argcomplete.shell_integration import shellcode

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
        description="Print a script that completes gpustack's words. For the shell's start file:\n"
        + "\n".join(f"  {shell}: {use}" for shell, use in _USE.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=sorted(_USE))
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the script of one shell."""
    print(shellcode(["gpustack"], shell=chosen.shell))
    return 0
