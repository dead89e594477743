"""What to do about each code of an Event, a refusal or a failed pod: `gpustack help CODE`."""

import textwrap

from gpustack.model.codes import MEANINGS

_COLUMNS = 80


def text(code: str) -> str:
    """Return the help of a code.

    Raises:
        KeyError: there is no such code.
    """
    meaning = MEANINGS[code]
    cure = textwrap.fill(meaning.cure, _COLUMNS, break_on_hyphens=False)
    return f"{code}: {meaning.words}\n\n{cure}\n\n{meaning.where}; {meaning.page}"
