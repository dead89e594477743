"""XIDs, the driver's error messages about a card, by NVIDIA's own table of actions.

Source: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (Ampere and newer; its
column "Resolution Bucket (Immediate Action)"), as of October 2025. For Volta and older NVIDIA's
https://docs.nvidia.com/deploy/xid-errors/archive/index.html has the same numbers.

The rule for an XID that stands in no row here: the card gets no new work until it was quiet for the
time of a probe. NVIDIA calls the numbers that it doesn't use `CONTACT_SUPPORT`; they count as such.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


class Ends(enum.Enum):
    """What must be seen before a card that was at fault may be tried again.

    The values stand in the agent's state file.
    """

    NEVER_BEGAN = "never-began"  # the event says nothing against the card
    QUIET = "quiet"  # nothing new for the time of a probe
    RESET = "reset"  # the card was reset, which shows by its loss and return; or the host booted
    BOOT = "boot"  # the host booted
    PERSON = "person"  # a person says so


ENDS_WORDS: Final[Mapping[Ends, str]] = MappingProxyType(
    {
        Ends.NEVER_BEGAN: "the card stays in use",
        Ends.QUIET: "it comes back by itself after a quiet time",
        Ends.RESET: "it comes back after a reset of the card or a boot of the host",
        Ends.BOOT: "it comes back after a boot of the host",
        Ends.PERSON: "it comes back when a person releases it",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRule:
    """One XID.

    Attributes:
        number: as `dmesg` shows it after `NVRM: Xid`.
        meaning: what happened, in words.
        action: NVIDIA's immediate action, by the name of its bucket.
        ends: what it does to the card.
    """

    number: int
    meaning: str
    action: str
    ends: Ends


_UNLISTED: Final = "none listed"

# What NVIDIA says to do, and what that means for the card's use.
_ENDS: Final[Mapping[str, Ends]] = MappingProxyType(
    {
        "IGNORE": Ends.NEVER_BEGAN,
        "RESTART_APP": Ends.NEVER_BEGAN,
        # Clean-up after another error: that one decides.
        "WORKFLOW_XID_45": Ends.NEVER_BEGAN,
        # The driver names another recovery action, which is polled (health.py).
        "XID_154": Ends.NEVER_BEGAN,
        "RESET_GPU": Ends.RESET,
        # Reset the card; drain it first where XID 63 or 64 came too. Running pods are never ended.
        "WORKFLOW_XID_48": Ends.RESET,
        # Reset or reboot. Which of its links, only the message in dmesg says.
        "WORKFLOW_NVLINK_ERR": Ends.RESET,
        # The action is in bits of the message that NVML doesn't pass on; most say IGNORE, and a
        # reset that is needed shows as the driver's recovery action.
        "WORKFLOW_NVLINK5_ERR": Ends.QUIET,
        # A card that answers again was found anew on its bus: as good as a reset.
        "RESTART_BM": Ends.RESET,
        "RESTART_VM": Ends.BOOT,
        "CHECK_MECHANICALS": Ends.BOOT,
        "CHECK_UVM": Ends.QUIET,
        "UPDATE_SWFW": Ends.QUIET,
        "CONTACT_SUPPORT": Ends.PERSON,
        _UNLISTED: Ends.QUIET,
    }
)

_ROWS: Final[tuple[tuple[int, str, str], ...]] = (
    (8, "the card stopped processing", "RESTART_APP"),
    (11, "invalid or corrupted push buffer", "RESTART_APP"),
    (13, "graphics engine exception", "RESTART_APP"),
    (14, "a test of the error path", "IGNORE"),
    (25, "invalid or illegal push buffer", "RESTART_APP"),
    (31, "memory page fault", "RESTART_APP"),
    (32, "invalid or corrupted push buffer", "RESTART_APP"),
    (37, "driver firmware error", "IGNORE"),
    (38, "driver firmware error", "IGNORE"),
    (39, "copy engine exception", "RESTART_APP"),
    (40, "copy engine exception", "RESTART_APP"),
    (41, "copy engine exception", "RESTART_APP"),
    (43, "a program's channel was reset", "IGNORE"),
    (44, "fault during a context switch", "IGNORE"),
    (45, "clean-up after an earlier error", "WORKFLOW_XID_45"),
    (46, "the card stopped processing", "RESET_GPU"),
    (48, "double-bit ECC error", "WORKFLOW_XID_48"),
    (54, "auxiliary power is not connected", "CHECK_MECHANICALS"),
    (60, "video processor exception", "RESTART_APP"),
    (62, "internal micro-controller halt", "RESET_GPU"),
    (63, "memory remapping, or page retirement", "IGNORE"),
    (64, "memory remapping, or page retirement, failed", "RESET_GPU"),
    (66, "illegal access by the driver", "IGNORE"),
    (67, "illegal access by the driver", "IGNORE"),
    (68, "video decoder exception", "RESTART_APP"),
    (69, "graphics engine class error", "RESTART_APP"),
    (70, "copy engine error", "RESTART_APP"),
    (71, "copy engine error", "RESTART_APP"),
    (72, "copy engine error", "RESTART_APP"),
    (74, "NVLink error", "WORKFLOW_NVLINK_ERR"),
    (75, "copy engine error", "RESTART_APP"),
    (76, "copy engine error", "RESTART_APP"),
    (77, "copy engine error", "RESTART_APP"),
    (78, "a virtual GPU did not start", "UPDATE_SWFW"),
    (79, "the card has fallen off the bus", "RESTART_BM"),
    (80, "corrupted data was sent to the card", "RESTART_APP"),
    (82, "JPEG engine error", "RESTART_APP"),
    (83, "video decoder error", "RESTART_APP"),
    (84, "video decoder error", "RESTART_APP"),
    (85, "copy engine error", "RESTART_APP"),
    (86, "optical flow engine exception", "RESTART_APP"),
    (88, "video decoder error", "RESTART_APP"),
    (89, "video decoder error", "RESTART_APP"),
    (92, "high rate of single-bit ECC errors", "IGNORE"),
    (93, "wear limit of the InfoROM exceeded", "IGNORE"),
    (94, "contained memory error", "RESTART_APP"),
    (95, "uncontained memory error", "RESET_GPU"),
    *((number, "video decoder error", "RESTART_APP") for number in range(96, 99)),
    *((number, "JPEG engine error", "RESTART_APP") for number in range(99, 106)),
    (106, "test message", "IGNORE"),
    (107, "test message", "IGNORE"),
    (108, "NVLink translation error of a peer", "IGNORE"),
    (109, "context switch timeout", "RESET_GPU"),
    (110, "security fault", "RESET_GPU"),
    (119, "GSP firmware did not answer in time", "RESET_GPU"),
    (120, "GSP firmware error", "RESET_GPU"),
    (121, "chip-to-chip link error", "IGNORE"),
    *((number, "copy engine error", "RESTART_APP") for number in range(126, 136)),
    (136, "NVLink training failed", "RESET_GPU"),
    (137, "NVLink privilege error", "IGNORE"),
    (139, "optical flow engine error", "RESTART_APP"),
    (140, "unrecovered ECC error", "RESET_GPU"),
    (141, "CUDA fast path error", "IGNORE"),
    (142, "video encoder error", "CONTACT_SUPPORT"),
    (143, "the card did not initialise", "RESET_GPU"),
    *((number, "NVLink error", "WORKFLOW_NVLINK5_ERR") for number in range(144, 151)),
    (151, "key rotation error", "RESTART_VM"),
    (152, "DLA memory error", "IGNORE"),
    (153, "DLA timeout", "IGNORE"),
    (154, "the driver's recovery action changed", "XID_154"),
    (155, "NVLink error", "RESET_GPU"),
    (156, "a part of the card is to be retired", "RESET_GPU"),
    (157, "a part of the card can't be retired", "IGNORE"),
    (158, "fatal timeout of the card", "RESET_GPU"),
    (159, "chip-to-chip link error", "CHECK_UVM"),
    (160, "a channel was retired", "IGNORE"),
    (161, "a channel could not be retired", "IGNORE"),
    # The catalog's words on power smoothing say that no reset is required.
    *((number, "power smoothing changed", "IGNORE") for number in range(162, 166)),
    (166, "unencrypted traffic in confidential mode", _UNLISTED),
    (167, "fatal PCIe timeout", _UNLISTED),
    (168, "errors in write-protected memory", _UNLISTED),
    (169, "internal micro-controller halt", _UNLISTED),
    (170, "interrupt in confidential mode", _UNLISTED),
    # Details of an XID 48, which comes too.
    (171, "uncorrectable DRAM error", "WORKFLOW_XID_48"),
    (172, "uncorrectable SRAM error", "WORKFLOW_XID_48"),
)

XID_RULES: Final[Mapping[int, XidRule]] = MappingProxyType(
    {
        number: XidRule(number=number, meaning=meaning, action=action, ends=_ENDS[action])
        for number, meaning, action in _ROWS
    }
)


def xid_rule(number: int) -> XidRule:
    """Return the rule for an XID, also for one that stands in no row."""
    unknown = XidRule(number=number, meaning="not in our table", action=_UNLISTED, ends=Ends.QUIET)
    return XID_RULES.get(number, unknown)
