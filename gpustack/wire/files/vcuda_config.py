"""The two files by which the original's library knows its limits: vcuda.config and pids.config.

The library (tkestack/vcuda-controller, include/hijack.h, `resource_data_t`) reads the first as the
memory image of one C structure, little-endian, and refuses any other size. The second is a bare
array of process IDs, which it searches by halves: they must ascend.
"""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

VCUDA_CONFIG: Final = "vcuda.config"
PIDS_CONFIG: Final = "pids.config"

MOST_PIDS: Final = 1024  # the library's table (hijack.h, MAX_PIDS); it reads no further

# pod_uid[48], limit, occupied[4044], container_name[FILENAME_MAX], bus_id[16], gpu_memory,
# utilization, hard_limit, driver_version {major, minor}, enable, padding
_CONFIG: Final = struct.Struct("<48si4044x4096s16xQii2ii4x")
CONFIG_BYTES: Final = _CONFIG.size  # 8240

_WHOLE_CARD: Final = 100
_INT32: Final = 2**31
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VcudaConfig:
    """One container's limits, as the original writes them.

    Attributes:
        pod_uid: of its pod.
        container: its name.
        cores: hundredths of a card; from 100 on the library limits nothing.
        memory_bytes: the share's memory.
        soft_limit: percent up to which idle compute may be used; None: no more than `cores`.
        driver: the driver's version, 535.261.03.
    """

    pod_uid: str
    container: str
    cores: int
    memory_bytes: int
    soft_limit: int | None
    driver: str

    def encode(self) -> bytes:
        """Return the 8240 bytes of vcuda.config."""
        major, minor = _version(self.driver)
        return _CONFIG.pack(
            self.pod_uid.encode(),
            0 if self.soft_limit is None else self.soft_limit,
            self.container.encode(),
            self.memory_bytes,
            self.cores,
            int(self.soft_limit is None),
            major,
            minor,
            int(self.cores < _WHOLE_CARD),
        )


def soft_limit(text: str) -> int:
    """Return the percentage of an annotation, at most 100; the original takes any integer.

    Raises:
        ValueError: it is no integer, or none that the file can have.
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError("is no integer")
    value = min(_WHOLE_CARD, int(text))
    if value < -_INT32:
        raise ValueError("is less than an int32 can be")
    return value


def encode_pids(pids: Iterable[int]) -> bytes:
    """Return the bytes of pids.config: the IDs ascend, and the highest are kept of too many.

    IDs ascend with the age of their processes but for an overflow: the process that registers is
    among the newest.
    """
    kept = sorted(set(pids))[-MOST_PIDS:]
    return struct.pack(f"<{len(kept)}i", *kept)


def _version(driver: str) -> tuple[int, int]:
    """Return what the original takes for major and minor: 470.57.02 is 470 and, unreadable, 0."""
    major, _, minor = driver.partition(".")
    first, second = (int(each) if _DECIMAL.fullmatch(each) else 0 for each in (major, minor))
    return first, second
