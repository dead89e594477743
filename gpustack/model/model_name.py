"""A card's model by name: as a node's label holds it, and as users and quotas call it."""

import functools
import re
from typing import Final

_LABEL_MAX: Final = 63  # longest value of a Kubernetes label
_NOT_LABEL: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LABEL_EDGE: Final = "-_."  # a label's value begins and ends with a letter or a digit


@functools.lru_cache(maxsize=1024)  # a cluster has few models; quota asks for them all the time
def label_safe_model(model: str) -> str:
    """Return a model's full name as a label can hold it: `NVIDIA-A100-SXM4-80GB`."""
    name = _NOT_LABEL.sub("-", model).strip(_LABEL_EDGE)
    return name[:_LABEL_MAX].rstrip(_LABEL_EDGE)


@functools.lru_cache(maxsize=4096)
def model_matches(pattern: str, model: str) -> bool:
    """Say whether a model name of a user or a quota means this card.

    It does when it equals, without regard to case, the label-safe full name or one of its
    dash-separated words: `A100` means `NVIDIA A100-SXM4-80GB`, `A10` does not.
    """
    name = label_safe_model(model).casefold()
    wanted = pattern.casefold()
    return bool(wanted) and (wanted == name or wanted in name.split("-"))
