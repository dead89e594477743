"""Filter that leaves out what a site has accepted of preflight's findings.

A finding is accepted by its name: its kind, or of a DaemonSet KIND/NAMESPACE/NAME. A user may make
a DaemonSet of any name in a namespace of theirs, and who accepts that one accepts no other.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

# As preflight_gpu_software.py finds them; the last is the role kube_scheduler's.
KINDS = (
    "nvidia-device-plugin", "nvidia-gpu-operator", "nvidia-dra-driver", "gpu-manager",
    "gpu-manager-account", "nvidia-default-runtime", "nvidia-runtime-class",
    "dra-extended-resource", "unknown-runtime", "gpu-admission-account",
)  # fmt: skip
DAEMONSETS = KINDS[:4]
_OBJECT = r"[a-z0-9][a-z0-9.-]*"
_NAME = re.compile(rf"{'|'.join(KINDS)}|(?:{'|'.join(DAEMONSETS)})/{_OBJECT}/{_OBJECT}")


def unaccepted(findings: Iterable[Mapping[str, str]], accepted: Sequence[str]) -> list[str]:
    """Return the findings that a site hasn't accepted, as lines for people.

    A name that no finding has is one, too: it would accept nothing.

    Args:
        findings: each with `name` and `text`.
        accepted: names.
    """
    strangers = [
        f"preflight_accepted_findings: {each} is the name of no finding (docs/operations.md)."
        for each in accepted
        if not _NAME.fullmatch(each)
    ]
    return strangers + [
        f"{each['name']}: {each['text']}." for each in findings if each["name"] not in accepted
    ]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by the name that templates use."""
        return {"preflight_unaccepted": unaccepted}
