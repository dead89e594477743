"""The activity page: the agent's samples of a container's cards, as the hook reads them.

Source of truth: ``hook/include/vcuda_layout.h``, ``struct vcuda_activity_body``.
"""

import dataclasses
import struct

from gpustack.wire.mapped import two_slot_page

MAGIC = b"VCUDAACT"

_BODY_HEADER = struct.Struct("<QI36x")
_CARD = struct.Struct("<16sIIQQQQ8x")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardActivity:
    """One card at the last sample.

    Attributes:
        uuid: as NVML spells it.
        tenants_wanting: containers on the card that wanted compute.
        burst_allowed: whether this container may exceed its guaranteed share.
        unaccounted_bytes: memory of this container that NVML sees and no ledger explains.
        busy_ns: GPU time of this container since its start, as the agent counts it.
        paid_until_ns: CLOCK_MONOTONIC up to which that time is paid for; 0: no debt known.
            Layout 2.
        debt_ns: GPU time that isn't paid for yet; 0: none known. Layout 2.
    """

    uuid: str
    tenants_wanting: int = 0
    burst_allowed: bool = False
    unaccounted_bytes: int = 0
    busy_ns: int = 0
    paid_until_ns: int = 0
    debt_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One sample; ``sampled_ns`` is CLOCK_MONOTONIC, 0 before the first one."""

    sampled_ns: int
    cards: tuple[CardActivity, ...]

    def __post_init__(self) -> None:
        two_slot_page.check_cards([card.uuid for card in self.cards])


def encode_body(activity: Activity, layout: int = two_slot_page.LAYOUT_VERSION) -> bytes:
    """Return a slot's body; that of layout 1 has zeros for the fields of layout 2.

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
            *((card.paid_until_ns, card.debt_ns) if layout > 1 else (0, 0)),
        )
    return body.ljust(two_slot_page.BODY_BYTES, b"\0")


def decode(data: bytes) -> Activity:
    """Return what an activity page (all of its bytes) publishes.

    Raises:
        LayoutError: torn, short, foreign, of another version, or with too many cards.
    """
    slot = two_slot_page.decode_page(MAGIC, data)
    sampled_ns, count = _BODY_HEADER.unpack_from(slot.body)
    if count > two_slot_page.MAX_CARDS:
        message = f"activity names {count} cards"
        raise two_slot_page.LayoutError(message)
    return Activity(
        sampled_ns=sampled_ns,
        cards=tuple(_decode_card(slot, index) for index in range(count)),
    )


def _decode_card(slot: two_slot_page.Slot, index: int) -> CardActivity:
    offset = _BODY_HEADER.size + index * _CARD.size
    uuid, wanting, burst, unaccounted, busy_ns, *account = _CARD.unpack_from(slot.body, offset)
    paid_until_ns, debt_ns = account if slot.layout > 1 else (0, 0)
    return CardActivity(
        uuid=two_slot_page.uuid_from_bytes(uuid),
        tenants_wanting=wanting,
        burst_allowed=burst != 0,
        unaccounted_bytes=unaccounted,
        busy_ns=busy_ns,
        paid_until_ns=paid_until_ns,
        debt_ns=debt_ns,
    )
