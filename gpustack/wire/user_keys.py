"""The annotations with which a pod's user chooses cards, and how it is given them.

A user with the right to edit a pod may change them at any time, so every value is bounded before
it is read, and the cards that a pod holds never depend on them.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpustack.model.model_name import label_safe_model
from gpustack.model.request import ANY, BadRequest, PodRequest, Selector, Strategy, Topology
from gpustack.wire.annotations import annotations_of
from gpustack.wire.keys import Keys
from gpustack.wire.quoting import quoted

# The admission policy gpustack-user-keys says the same in CEL.
MOST_NAMES: Final = 64  # of one key: more cards or models than any node has
LONGEST_BYTES: Final = 4096  # of one key: 64 names of 63 characters, the longest of Kubernetes

_PLAIN: Final = re.compile(r"[\t-\r -~]*")  # the names that drivers give are ASCII
_SPACES: Final = " \t\n\v\f\r"
_NAMING: Final = re.compile(r"[0-9A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserKeys:
    """The values of a pod's user keys.

    Attributes:
        models: acceptable models.
        uuids: acceptable cards.
        topology: how the cards of a container must be joined.
        node_strategy: which nodes are filled first.
        card_strategy: which cards are filled first.
        core_limit: the burst ceiling in percent, at most 100; None where there is none.
        library_path: whether containers get LD_LIBRARY_PATH; None: as the node's setting says.
        problems: unreadable keys, each with its field; such a key counts as not written.
    """

    models: Selector = ANY
    uuids: Selector = ANY
    topology: Topology = Topology.BEST_EFFORT
    node_strategy: Strategy = Strategy.BINPACK
    card_strategy: Strategy = Strategy.BINPACK
    core_limit: int | None = None
    library_path: bool | None = None
    problems: tuple[BadRequest, ...] = ()

    def choose_for(self, limits: PodRequest) -> PodRequest:
        """Return what the limits of a pod ask, of the cards that these keys allow."""
        return replace(
            limits,
            models=self.models,
            uuids=self.uuids,
            topology=self.topology,
            node_strategy=self.node_strategy,
            card_strategy=self.card_strategy,
        )


@functools.cache
def names_of(keys: Keys) -> tuple[str, ...]:
    """Return the user keys of a domain."""
    return (
        keys.gpu_placement,
        keys.gpu_model,
        keys.gpu_uuid,
        keys.gpu_topology,
        keys.core_limit,
        keys.driver_path,
    )


def parse_user_keys(keys: Keys, pod: Mapping[str, Any]) -> UserKeys:
    """Read the user keys of a pod, readable or not."""
    annotations = annotations_of(pod)
    readers: dict[str, Callable[[str, str], dict[str, Any]]] = {
        keys.gpu_placement: _strategies,
        # A user may write the driver's name, with its spaces; unread, it would exclude nothing.
        keys.gpu_model: lambda key, text: {"models": _selector(key, text, label_safe_model)},
        keys.gpu_uuid: lambda key, text: {"uuids": _selector(key, text, str.strip)},
        keys.gpu_topology: lambda key, text: {"topology": _topology(key, text)},
        keys.core_limit: lambda key, text: {"core_limit": _percent(key, text)},
        keys.driver_path: lambda key, text: {"library_path": _library_path(key, text)},
    }
    found: dict[str, Any] = {}
    problems: list[BadRequest] = []
    for key, read in readers.items():
        text = annotations.get(key)
        if text is None:
            continue
        try:
            _refuse_long(key, text)
            found |= read(key, text)
        except BadRequest as problem:
            problems.append(problem.with_traceback(None))
    return UserKeys(**found, problems=tuple(problems))


def core_limit(keys: Keys, pod: Mapping[str, Any]) -> int | None:
    """Return the burst ceiling of a pod in percent, at most 100; None when it has none.

    Raises:
        BadRequest: not a whole number of percent above 0.
    """
    text = annotations_of(pod).get(keys.core_limit)
    return None if text is None else _percent(keys.core_limit, text)


def library_path(keys: Keys, pod: Mapping[str, Any]) -> bool | None:
    """Return whether a pod's containers get LD_LIBRARY_PATH; None where the pod doesn't say it.

    Raises:
        BadRequest: another word than `env` and `none`.
    """
    text = annotations_of(pod).get(keys.driver_path)
    return None if text is None else _library_path(keys.driver_path, text)


def field(key: str) -> str:
    """Return the path of an annotation in its pod."""
    return f"metadata.annotations[{key}]"


def _refuse_long(key: str, text: str) -> None:
    if len(text) > LONGEST_BYTES or len(text.encode(errors="replace")) > LONGEST_BYTES:
        problem = f"is longer than {LONGEST_BYTES} bytes; name at most {MOST_NAMES} models or cards"
        raise BadRequest(field(key), problem)
    if (names := text.count(",") + 1) > MOST_NAMES:
        raise BadRequest(field(key), f"has {names} names; write at most {MOST_NAMES}")


def _selector(key: str, text: str, spelt: Callable[[str], str]) -> Selector:
    # A look-alike would match no card: what it excludes would be given all the same.
    if not _PLAIN.fullmatch(text):
        problem = "has a character beyond ASCII, or a control character; write A100,!P40"
        raise BadRequest(field(key), f"{quoted(text)} {problem}")
    include: list[str] = []
    exclude: list[str] = []
    for word in text.split(","):
        name = word.strip()
        wanted = spelt(name.removeprefix("!"))
        if not _NAMING.search(wanted):
            raise BadRequest(field(key), f"{quoted(text)} has an empty name; write A100,!P40")
        (exclude if name.startswith("!") else include).append(wanted)
    return Selector(include=tuple(include), exclude=tuple(exclude))


def _topology(key: str, text: str) -> Topology:
    try:
        return Topology(text.strip(_SPACES))
    except ValueError:
        allowed = ", ".join(each.value for each in Topology)
        raise BadRequest(field(key), f"{quoted(text)} is not one of {allowed}") from None


def _strategies(key: str, text: str) -> dict[str, Any]:
    try:
        if "=" not in text:
            both = Strategy(text.strip(_SPACES))
            return {"node_strategy": both, "card_strategy": both}
        pairs = [part.partition("=") for part in text.split(",")]
        chosen = {name.strip(_SPACES): Strategy(value.strip(_SPACES)) for name, _, value in pairs}
        if len(chosen) != len(pairs) or not chosen.keys() <= {"node", "card"}:
            raise ValueError(text)
    except ValueError:
        allowed = "binpack, spread, or node=spread,card=binpack"
        raise BadRequest(field(key), f"{quoted(text)} is not {allowed}") from None
    return {f"{name}_strategy": strategy for name, strategy in chosen.items()}


def _percent(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise BadRequest(field(key), f"{quoted(text)} is not a percentage; write 1 to 100")
    return min(100, int(text))


def _library_path(key: str, text: str) -> bool:
    word = text.strip(_SPACES) if len(text) <= LONGEST_BYTES else ""
    if word not in {"env", "none"}:
        raise BadRequest(field(key), f"{quoted(text)} is not env or none")
    return word == "env"
