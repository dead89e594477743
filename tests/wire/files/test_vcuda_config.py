"""The bytes of the original's two files, at the offsets of its own declaration."""

import struct

import pytest

from gpustack.wire.files import vcuda_config
from gpustack.wire.files.vcuda_config import VcudaConfig, encode_pids, soft_limit


def _config(**fields: object) -> bytes:
    values: dict[str, object] = {
        "pod_uid": "11111111-2222-3333-4444-555555555555",
        "container": "c0",
        "cores": 30,
        "memory_bytes": 7 << 28,
        "soft_limit": None,
        "driver": "470.57.02",
        **fields,
    }
    return VcudaConfig(**values).encode()  # type: ignore[arg-type]


def _int32(content: bytes, offset: int) -> int:
    (value,) = struct.unpack_from("<i", content, offset)
    return int(value)


def test_every_field_stands_at_the_originals_offset() -> None:
    content = _config()
    assert len(content) == 8240
    assert content[:48].rstrip(b"\0") == b"11111111-2222-3333-4444-555555555555"
    assert content[4096:8192].rstrip(b"\0") == b"c0"
    assert struct.unpack_from("<Q", content, 8208) == (7 << 28,)
    assert [_int32(content, each) for each in (48, 8216, 8220, 8224, 8228, 8232)] == [
        0,
        30,
        1,
        470,
        0,
        1,
    ]
    assert content[52:4096] + content[8192:8208] + content[8236:] == bytes(4044 + 16 + 4)


@pytest.mark.parametrize(
    ("text", "limit"), [("1", 1), ("100", 100), ("101", 100), ("+7", 7), ("-3", -3), ("0", 0)]
)
def test_a_soft_limit_is_the_originals(text: str, limit: int) -> None:
    content = _config(soft_limit=soft_limit(text))
    assert (_int32(content, 48), _int32(content, 8220)) == (limit, 0)


@pytest.mark.parametrize("text", ["", "a", "1.5", "0x1", " 5", "5%", "१", "-99999999999", "9" * 99])
def test_a_soft_limit_that_is_no_int32_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is "):
        soft_limit(text)


@pytest.mark.parametrize(
    ("driver", "version"),
    [("440.33", (440, 33)), ("535.261.03", (535, 0)), ("", (0, 0)), ("550", (550, 0))],
)
def test_a_driver_version_is_read_as_the_original_reads_it(
    driver: str, version: tuple[int, int]
) -> None:
    content = _config(driver=driver)
    assert (_int32(content, 8224), _int32(content, 8228)) == version


def test_whole_cards_are_not_limited() -> None:
    assert [_int32(_config(cores=each), 8232) for each in (99, 100, 300)] == [1, 0, 0]


def test_process_ids_ascend_and_the_newest_are_kept() -> None:
    content = encode_pids([5, 3, 9, 3])
    assert struct.unpack("<3i", content) == (3, 5, 9)
    many = encode_pids(range(1, 2 * vcuda_config.MOST_PIDS))
    assert len(many) == 4 * vcuda_config.MOST_PIDS
    assert struct.unpack_from("<i", many) == (vcuda_config.MOST_PIDS,)
