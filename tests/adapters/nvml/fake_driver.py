"""A driver in place of pynvml's functions: every query may be refused, for every card.

The simulated driver answers as a healthy host does; this one has the faults of the field.
"""

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml
import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCard:
    """What the driver says of one card; a handle is the card itself."""

    minor: int
    uuid: str
    bus: str


def cards(count: int) -> list[FakeCard]:
    return [
        FakeCard(minor=minor, uuid=f"GPU-{minor}", bus=f"00000000:{minor + 7:02X}:00.0")
        for minor in range(count)
    ]


@dataclass(slots=True, kw_only=True)
class FakeDriver:
    """Answers from its fields, or raises.

    Attributes:
        cards: in the order of NVML's indexes.
        levels: of pairs of positions, lower first; others meet in the system.
        far_ends: of every active NVLink, by position; a text that is no address is refused.
        mig: UUIDs of cards that are cut up.
        asks_for: what the driver asks for a card, by UUID (NVML_GPU_RECOVERY_ACTION_…).
        retiring: UUIDs of cards with a page that waits to be retired.
        refused: the error of a query by its name, of one card (`name`, position) or of all.
    """

    cards: list[FakeCard]
    levels: dict[tuple[int, int], int] = field(default_factory=dict)
    far_ends: dict[int, list[str]] = field(default_factory=dict)
    refused: dict[tuple[str, int | None], int] = field(default_factory=dict)
    nvlink_peers: bool = False
    mig: set[str] = field(default_factory=set)
    asks_for: dict[str, int] = field(default_factory=dict)
    retiring: set[str] = field(default_factory=set)
    events: list[set[str]] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
        monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
        for name in ANSWERS:
            monkeypatch.setattr(pynvml, name, self._query(name))

    def _query(self, name: str) -> Callable[..., Any]:
        def query(*arguments: Any) -> Any:
            at = next(
                (self.cards.index(each) for each in arguments if isinstance(each, FakeCard)), None
            )
            for place in (at, None):
                if (name, place) in self.refused:
                    raise pynvml.NVMLError(self.refused[name, place])
            return ANSWERS[name](self, *arguments)

        return query


def _by_uuid(driver: FakeDriver, uuid: str) -> FakeCard:
    """Return the newest handle: a card that was found again has one more."""
    for card in reversed(driver.cards):
        if card.uuid == uuid:
            return card
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)


def _level(driver: FakeDriver, one: FakeCard, two: FakeCard) -> int:
    pair = sorted((driver.cards.index(one), driver.cards.index(two)))
    return driver.levels.get((pair[0], pair[1]), int(pynvml.NVML_TOPOLOGY_SYSTEM))


def _link_state(driver: FakeDriver, card: FakeCard, link: int) -> int:
    if link >= len(driver.far_ends.get(driver.cards.index(card), ())):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return int(pynvml.NVML_FEATURE_ENABLED)


def _far_end(driver: FakeDriver, card: FakeCard, link: int) -> Any:
    return types.SimpleNamespace(busId=driver.far_ends[driver.cards.index(card)][link])


def _fields(driver: FakeDriver, card: FakeCard, ids: list[int]) -> Any:
    """Answer the recovery action; drivers before 570 know no such field."""
    assert ids == [230]
    action = driver.asks_for.get(card.uuid)
    result = pynvml.NVML_ERROR_NOT_SUPPORTED if action is None else pynvml.NVML_SUCCESS
    value = types.SimpleNamespace(uiVal=action or 0)
    return [types.SimpleNamespace(nvmlReturn=result, value=value)]


def _register(driver: FakeDriver, card: FakeCard, _: int, events: set[str]) -> None:
    events.add(card.uuid)


def _events(driver: FakeDriver) -> set[str]:
    driver.events.append(set())
    return driver.events[-1]


def _peers(driver: FakeDriver, *_: Any) -> int:
    ok, no = pynvml.NVML_P2P_STATUS_OK, pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
    return int(ok if driver.nvlink_peers else no)


def _wait(driver: FakeDriver, events: set[str], _: int) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)


ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetCount": lambda driver: len(driver.cards),
    "nvmlSystemGetDriverVersion": lambda _: "470.256.02",
    "nvmlSystemGetCudaDriverVersion_v2": lambda _: 11040,
    "nvmlDeviceGetHandleByIndex": lambda driver, index: driver.cards[index],
    "nvmlDeviceGetHandleByUUID": _by_uuid,
    "nvmlDeviceGetPciInfo": lambda _, card: types.SimpleNamespace(busId=card.bus),
    "nvmlDeviceGetUUID": lambda _, card: card.uuid,
    "nvmlDeviceGetMinorNumber": lambda _, card: card.minor,
    "nvmlDeviceGetName": lambda _, __: "NVIDIA A100-SXM4-80GB",
    "nvmlDeviceGetMemoryInfo": lambda *_: types.SimpleNamespace(total=80 << 30, used=0),
    "nvmlDeviceGetNumGpuCores": lambda _, __: 6912,
    "nvmlDeviceGetCudaComputeCapability": lambda _, __: (8, 0),
    "nvmlDeviceGetMemoryAffinity": lambda *_: [1],
    "nvmlDeviceGetMigMode": lambda driver, card: [int(card.uuid in driver.mig)] * 2,
    "nvmlDeviceGetTotalEccErrors": lambda *_: 0,
    "nvmlDeviceGetRemappedRows": lambda *_: (0, 0, 0, 0),
    "nvmlDeviceGetRetiredPagesPendingStatus": lambda driver, card: int(
        card.uuid in driver.retiring
    ),
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetTopologyCommonAncestor": _level,
    "nvmlDeviceGetNvLinkState": _link_state,
    "nvmlDeviceGetNvLinkRemotePciInfo": _far_end,
    "nvmlDeviceGetP2PStatus": _peers,
    "nvmlEventSetCreate": _events,
    "nvmlDeviceRegisterEvents": _register,
    "nvmlEventSetWait_v2": _wait,
    "nvmlEventSetFree": lambda driver, events: driver.events.remove(events),
    "nvmlDeviceGetComputeRunningProcesses": lambda *_: [],
    "nvmlDeviceGetGraphicsRunningProcesses": lambda *_: [],
    "nvmlDeviceGetMPSComputeRunningProcesses": lambda *_: [],
    "nvmlDeviceGetProcessUtilization": lambda *_: [],
}
