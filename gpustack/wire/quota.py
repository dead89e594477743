"""The quota ConfigMap of the original gpu-admission, with fractions of cards added.

Key `gpu_quota` holds JSON: namespace -> `{"quota": {MODEL: CARDS}, "pool": [POOL, ...]}`
(schema `gpu-quota.json`). It accepts what the original accepted, `null` for an empty list
included (Go writes it so), but two things that the original overlooked are errors: an unknown key
of a namespace (`"pools"` would lift the limit that the operator means) and a negative number.
"""

import decimal
import json
from collections.abc import Mapping
from typing import Any, Final

from gpustack.model.errors import GpustackError
from gpustack.model.model_name import label_safe_model
from gpustack.model.quota.quota import NO_QUOTA, NamespaceQuota, Quota
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire import schemas
from gpustack.wire.quoting import quoted

CONFIG_MAP_NAMESPACE: Final = "kube-system"
CONFIG_MAP_NAME: Final = "gpuquota"
KEY: Final = "gpu_quota"

# Characters of a number: its digits are within the 28 that decimal keeps, its exponent in range.
_LONGEST: Final = 20
# A ConfigMap of 1 MiB has room for 300 000: they took 7 s, and 14 MB of the log and of an Event.
_MOST_PROBLEMS: Final = 20
_LONGEST_PROBLEM: Final = 600  # characters: the names of a namespace and a model have 253 each


class BadQuota(GpustackError, ValueError):
    """A quota that can't be used.

    Attributes:
        problems: one line each: the path of the value and what is allowed there.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems: Final = tuple(problems)
        super().__init__(f"data.{KEY}: {'; '.join(problems)}")


def decode_quota(config_map: Mapping[str, Any] | None) -> Quota:
    """Read the ConfigMap as the API gives it; None, which means there is none, is no quota.

    Raises:
        BadQuota: the key is missing, or its value isn't a quota.
    """
    if config_map is None:
        return NO_QUOTA
    text = (config_map.get("data") or {}).get(KEY)
    if not isinstance(text, str):
        raise BadQuota(["is missing; write {} to set no limit, or delete the ConfigMap"])
    return parse_quota(text)


def parse_quota(text: str) -> Quota:
    """Read the value of the key.

    Raises:
        BadQuota: not JSON, a key that stands twice, or anything that the schema doesn't allow;
            lists the first 20 problems with their paths.
    """
    try:
        body = json.loads(
            text, parse_float=_number, parse_constant=_refuse, object_pairs_hook=_distinct
        )
        problems = schemas.problems(schemas.load("gpu-quota"), body, _MOST_PROBLEMS)
    except ValueError as error:
        raise BadQuota([f"is not JSON: {error}"]) from None
    except RecursionError:
        raise BadQuota(["is nested too deeply"]) from None
    if problems:
        raise BadQuota([_cut(problem) for problem in problems])
    return Quota(namespaces={name: _namespace(name, each) for name, each in body.items()})


def _namespace(name: str, body: Mapping[str, Any]) -> NamespaceQuota:
    cards: dict[str, int] = {}
    for model, value in (body.get("quota") or {}).items():
        # An operator may write the driver's name, with its spaces.
        safe = label_safe_model(model)
        if safe in cards:
            raise BadQuota([f"{name}.quota.{model}: {safe} stands twice"])
        cards[safe] = _hundredths(f"{name}.quota.{model}", value)
    return NamespaceQuota(cards=cards, pools=tuple(body.get("pool") or ()))


def _hundredths(path: str, value: int | decimal.Decimal) -> int:
    """Return a number of cards as hundredths; the schema has bounded it already."""
    hundredths = int(value * CORES_PER_CARD)
    if decimal.Decimal(hundredths).scaleb(-2) != value:
        raise BadQuota([f"{path}: {value} has more than two decimals"])
    return hundredths


def _number(text: str) -> decimal.Decimal:
    """Return a number exactly as it is written, so that `0.1` is ten hundredths."""
    if len(text) > _LONGEST:
        raise ValueError(f"a number of {len(text)} characters")
    return decimal.Decimal(text)


def _cut(problem: str) -> str:
    """Return a problem without the rest of a name that no object can have."""
    return problem if len(problem) <= _LONGEST_PROBLEM else f"{problem[:_LONGEST_PROBLEM]}..."


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for key, value in pairs:
        if key in body:
            raise ValueError(f"{quoted(key)} stands twice")
        body[key] = value
    return body
