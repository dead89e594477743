"""What to do about each reason for which a pod gets no cards: `gpustack help CODE`."""

import textwrap

from gpustack.model.cures import CURES
from gpustack.model.refusal import REASON_WORDS, Reason


def text(code: str) -> str:
    """Return the help of a code.

    Raises:
        ValueError: there is no such code.
    """
    reason = Reason(code)
    return f"{reason}: {REASON_WORDS[reason]}\n\n{textwrap.fill(CURES[reason], 80)}"
