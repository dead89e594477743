"""The limits file: what a container may use of its cards, as the hook reads it.

Source of truth: ``hook/include/vcuda_layout.h``, ``struct vcuda_limits_body``.
"""

import dataclasses
import enum
import struct

from gpustack.wire.mapped import two_slot_page

MAGIC = b"VCUDALIM"

_BODY_HEADER = struct.Struct("<II40x")
_DEVICE = struct.Struct("<16sQQII24x")


class OnError(enum.Enum):
    """How gated calls behave when gating itself can't work (an unusable ledger)."""

    CLOSED = 0
    OPEN = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimit:
    """One card's share.

    Attributes:
        uuid: as NVML spells it.
        memory_bytes: of the card's memory, contexts and modules included.
        compute_percent: guaranteed GPU time, 1..100.
        burst_percent: ceiling while neighbours are idle, ``compute_percent``..100.
        context_bytes: what one CUDA context occupies on this card and driver.
    """

    uuid: str
    memory_bytes: int
    compute_percent: int
    burst_percent: int
    context_bytes: int

    def __post_init__(self) -> None:
        if not 1 <= self.compute_percent <= self.burst_percent <= 100:
            message = (
                f"card {self.uuid}: compute_percent {self.compute_percent} and burst_percent"
                f" {self.burst_percent} must satisfy 1 <= compute <= burst <= 100"
            )
            raise two_slot_page.LayoutError(message)
        if not (0 < self.memory_bytes < 2**63 and 0 <= self.context_bytes < 2**63):
            message = f"card {self.uuid}: memory_bytes or context_bytes is out of range"
            raise two_slot_page.LayoutError(message)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All of a container's shares; ``devices`` holds at most 16 cards, none twice."""

    devices: tuple[DeviceLimit, ...]
    on_error: OnError = OnError.CLOSED

    def __post_init__(self) -> None:
        two_slot_page.check_cards([device.uuid for device in self.devices])


def encode_body(limits: Limits) -> bytes:
    """Return a slot's body.

    Raises:
        LayoutError: a UUID isn't one.
    """
    body = _BODY_HEADER.pack(limits.on_error.value, len(limits.devices))
    for device in limits.devices:
        body += _DEVICE.pack(
            two_slot_page.uuid_to_bytes(device.uuid),
            device.memory_bytes,
            device.context_bytes,
            device.compute_percent,
            device.burst_percent,
        )
    return body.ljust(two_slot_page.BODY_BYTES, b"\0")


def decode(data: bytes) -> Limits:
    """Return what a limits file (all of its bytes) publishes.

    Raises:
        LayoutError: torn, short, foreign, of another version, or with impossible values.
    """
    body = two_slot_page.decode_page(MAGIC, data).body
    on_error, count = _BODY_HEADER.unpack_from(body)
    if count > two_slot_page.MAX_CARDS or on_error not in {item.value for item in OnError}:
        message = f"limits name {count} cards and on_error {on_error}"
        raise two_slot_page.LayoutError(message)
    return Limits(
        on_error=OnError(on_error),
        devices=tuple(_decode_device(body, index) for index in range(count)),
    )


def _decode_device(body: bytes, index: int) -> DeviceLimit:
    offset = _BODY_HEADER.size + index * _DEVICE.size
    uuid, memory, context, compute, burst = _DEVICE.unpack_from(body, offset)
    return DeviceLimit(
        uuid=two_slot_page.uuid_from_bytes(uuid),
        memory_bytes=memory,
        context_bytes=context,
        compute_percent=compute,
        burst_percent=burst,
    )
