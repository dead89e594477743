"""The common parts of the three mapped files: words, UUIDs and the two-slot page.

``hook/include/vcuda_layout.h`` is the source of truth; this module and its three neighbours state
the same numbers; ``tests/wire/mapped/test_header.py`` compiles the header to compare them.

The limits and activity files hold two slots. The writer fills the idle one and publishes its number
with one store of one byte, so a writer that dies leaves the last good slot in force. Here that is
bytes only: ``gpustack.adapters.mapped`` does the file I/O.
"""

import dataclasses
import itertools
import struct
import zlib
from collections.abc import Sequence

from gpustack.model.errors import GpustackError

LAYOUT_VERSION = 2
OLDEST_LAYOUT = 1
MAX_CARDS = 16
PAGE_FILE_BYTES = 4096

PAGE_HEADER = struct.Struct("<8sIIII40x")
SLOT_HEADER = struct.Struct("<QII")
PUBLISHED_OFFSET = 20
BODY_BYTES = 1072
SLOT_BYTES = SLOT_HEADER.size + BODY_BYTES

_UUID_PREFIXES = ("GPU-", "MIG-")


class LayoutError(GpustackError):
    """A mapped file can't be encoded or doesn't hold what its layout demands."""


class NewerLayoutError(LayoutError):
    """A newer agent has made the file, or its tenant wrote so into its ledger."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A published slot: its number (0 or 1), its generation (from 1), its body and the layout."""

    index: int
    generation: int
    body: bytes
    layout: int


def uuid_to_bytes(uuid: str) -> bytes:
    """Return the 16 bytes that cuDeviceGetUuid gives for a card that NVML calls ``uuid``.

    Raises:
        LayoutError: ``uuid`` isn't ``GPU-`` (or ``MIG-``) and 32 hexadecimal digits.
    """
    digits = uuid[4:].replace("-", "") if uuid.startswith(_UUID_PREFIXES) else ""
    try:
        value = bytes.fromhex(digits)
    except ValueError:
        value = b""
    if len(value) != 16:
        message = f"card UUID {uuid!r} is not GPU- followed by 32 hexadecimal digits"
        raise LayoutError(message)
    return value


def uuid_from_bytes(value: bytes) -> str:
    """Return NVML's spelling of 16 bytes: ``GPU-8-4-4-4-12``."""
    digits = value.hex()
    cuts = (0, 8, 12, 16, 20, 32)
    return "GPU-" + "-".join(digits[a:b] for a, b in itertools.pairwise(cuts))


def check_cards(uuids: Sequence[str]) -> None:
    """Check that a file can hold these cards: at most 16, none twice.

    Raises:
        LayoutError: otherwise.
    """
    if len(uuids) > MAX_CARDS:
        message = f"{len(uuids)} cards given, a mapped file holds at most {MAX_CARDS}"
        raise LayoutError(message)
    for position, uuid in enumerate(uuids):
        if uuid in uuids[:position]:
            message = f"card {uuid} is given twice"
            raise LayoutError(message)


def check_layout(version: int) -> int:
    """Return the number of a layout, if this program reads it, and so may write it.

    Raises:
        NewerLayoutError: it is newer.
        LayoutError: it is none.
    """
    if not OLDEST_LAYOUT <= version <= LAYOUT_VERSION:
        message = (
            f"layout version is {version}, this program reads {OLDEST_LAYOUT} to {LAYOUT_VERSION}"
        )
        raise NewerLayoutError(message) if version > LAYOUT_VERSION else LayoutError(message)
    return version


def check_header(data: bytes, header: tuple[bytes, int, int], *, expected_bytes: int) -> None:
    """Check magic and version of a file's first bytes, and its size.

    Args:
        data: the whole file.
        header: the magic expected, and the version and size that the file states.
        expected_bytes: the size that this layout version fixes.

    Raises:
        LayoutError: naming what differs.
    """
    magic, version, file_bytes = header
    if data[: len(magic)] != magic:
        message = f"magic is {data[: len(magic)]!r}, not {magic!r}"
        raise LayoutError(message)
    check_layout(version)
    if file_bytes != expected_bytes or len(data) != expected_bytes:
        message = f"file has {len(data)} bytes and states {file_bytes}, not {expected_bytes}"
        raise LayoutError(message)


def encode_slot(body: bytes, generation: int) -> bytes:
    """Return a slot's bytes: generation, CRC-32 over generation and body, body."""
    crc = zlib.crc32(body, zlib.crc32(generation.to_bytes(8, "little")))
    return SLOT_HEADER.pack(generation, crc, 0) + body


def encode_page(magic: bytes, body: bytes, layout: int = LAYOUT_VERSION) -> bytes:
    """Return a whole new file with ``body`` published in slot 0 as generation 1."""
    header = PAGE_HEADER.pack(magic, layout, PAGE_FILE_BYTES, SLOT_BYTES, 0)
    page = header + encode_slot(body, 1)
    return page.ljust(PAGE_FILE_BYTES, b"\0")


def slot_offset(index: int) -> int:
    """Return the offset in bytes of slot 0 or 1."""
    return PAGE_HEADER.size + index * SLOT_BYTES


def check_page(magic: bytes, data: bytes) -> tuple[int, int]:
    """Check a page's header; return the number of the slot that it publishes, and its layout.

    Raises:
        LayoutError: the file is short, foreign, of another version, or publishes no slot.
    """
    if len(data) < PAGE_HEADER.size:
        message = f"file has {len(data)} bytes, its header alone has {PAGE_HEADER.size}"
        raise LayoutError(message)
    _, version, file_bytes, slot_bytes, published = PAGE_HEADER.unpack_from(data)
    check_header(data, (magic, version, file_bytes), expected_bytes=PAGE_FILE_BYTES)
    if slot_bytes != SLOT_BYTES or published > 1:
        message = f"slots of {slot_bytes} bytes, slot {published} published"
        raise LayoutError(message)
    return int(published), int(version)


def decode_page(magic: bytes, data: bytes) -> Slot:
    """Return the published slot of a page.

    Raises:
        LayoutError: the header is wrong, or the slot's CRC doesn't fit: it was torn.
    """
    index, layout = check_page(magic, data)
    start = slot_offset(index)
    generation, crc, _ = SLOT_HEADER.unpack_from(data, start)
    body = data[start + SLOT_HEADER.size : start + SLOT_BYTES]
    if SLOT_HEADER.unpack_from(encode_slot(body, generation))[1] != crc:
        message = f"slot {index} is torn: its CRC doesn't fit"
        raise LayoutError(message)
    return Slot(index=index, generation=generation, body=body, layout=layout)
