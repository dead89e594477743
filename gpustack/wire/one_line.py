"""Text of tenants as one line: for logs, Events, and other texts that are read line by line.

A tenant names its processes, writes annotations and chooses paths. A line break in one of these
would begin a line of the journal with the tenant's text and a priority of its choice.
"""

from typing import Final

_CUT: Final = " … "


def one_line(text: str, longest: int) -> str:
    r"""Return a text without line breaks, control characters and others that don't print.

    They are written as Python writes them in a string: `\n`, `\x1b`, `\u202e`.

    Args:
        text: any text.
        longest: how many characters the line may have; of a longer text both ends are kept.
    """
    shorter = _shortened(text, longest)
    if shorter.isprintable():
        return shorter
    return _shortened("".join(map(_printable, shorter)), longest)


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = (longest - len(_CUT)) // 2
    return text[:half] + _CUT + text[-half:]
