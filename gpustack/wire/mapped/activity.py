"""The activity page: the agent's samples of a container's cards, as the hook reads them.

Source of truth: ``hook/include/vcuda_layout.h``, ``struct vcuda_activity_body``.
"""

import dataclasses
import struct

from gpustack.wire.mapped import two_slot_page

MAGIC = b"VCUDAACT"

_BODY_HEADER = struct.Struct("<QI36x")
_CARD = struct.Struct("<16sIIQQ24x")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardActivity:
    """One card at the last sample.

    Attributes:
        uuid: as NVML spells it.
        tenants_wanting: containers on the card that wanted compute.
        burst_allowed: whether this container may exceed its guaranteed share.
        unaccounted_bytes: memory of this container that NVML sees and no ledger explains.
        busy_ns: GPU time of this container since its start, as the agent counts it.
    """

    uuid: str
    tenants_wanting: int = 0
    burst_allowed: bool = False
    unaccounted_bytes: int = 0
    busy_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One sample; ``sampled_ns`` is CLOCK_MONOTONIC, 0 before the first one."""

    sampled_ns: int
    cards: tuple[CardActivity, ...]

    def __post_init__(self) -> None:
        two_slot_page.check_cards([card.uuid for card in self.cards])


def encode_body(activity: Activity) -> bytes:
    """Return a slot's body.

    Raises:
        LayoutError: a UUID isn't one.
    """
    body = _BODY_HEADER.pack(activity.sampled_ns, len(activity.cards))
    for card in activity.cards:
        body += _CARD.pack(
            two_slot_page.uuid_to_bytes(card.uuid),
            card.tenants_wanting,
            card.burst_allowed,
            card.unaccounted_bytes,
            card.busy_ns,
        )
    return body.ljust(two_slot_page.BODY_BYTES, b"\0")


def decode(data: bytes) -> Activity:
    """Return what an activity page (all of its bytes) publishes.

    Raises:
        LayoutError: torn, short, foreign, of another version, or with too many cards.
    """
    body = two_slot_page.decode_page(MAGIC, data).body
    sampled_ns, count = _BODY_HEADER.unpack_from(body)
    if count > two_slot_page.MAX_CARDS:
        message = f"activity names {count} cards"
        raise two_slot_page.LayoutError(message)
    return Activity(
        sampled_ns=sampled_ns,
        cards=tuple(_decode_card(body, index) for index in range(count)),
    )


def _decode_card(body: bytes, index: int) -> CardActivity:
    offset = _BODY_HEADER.size + index * _CARD.size
    uuid, wanting, burst, unaccounted, busy_ns = _CARD.unpack_from(body, offset)
    return CardActivity(
        uuid=two_slot_page.uuid_from_bytes(uuid),
        tenants_wanting=wanting,
        burst_allowed=burst != 0,
        unaccounted_bytes=unaccounted,
        busy_ns=busy_ns,
    )
