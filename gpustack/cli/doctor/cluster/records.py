"""The agents' records of their nodes' cards: there, readable, and of a version that is known."""

import json
from collections.abc import Iterator
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged
from gpustack.cli.doctor.cluster.facts import ClusterFacts, GpuNode
from gpustack.wire.nodes import MOST_TEXT_BYTES, VERSION

_UPGRADE: Final = "finish the upgrade: ansible-playbook playbooks/upgrade.yml"


def records(facts: ClusterFacts) -> list[Found]:
    """Say which nodes have no record of their cards that can be read."""
    described = sum(each.node is not None for each in facts.gpu_nodes)
    return judged(_unreadable(facts), f"{described} records of version {VERSION}")


def _unreadable(facts: ClusterFacts) -> Iterator[Found]:
    key = facts.keys.gpu_devices
    for node in facts.gpu_nodes:
        subject = f"node {node.name}"
        if node.record is None and not node.cores:  # with cores it may be the original's
            text = f"has no annotation {key}: no agent describes its cards"
            yield Found(level=Severity.FAIL, subject=subject, text=text)
        elif node.problem and _is_neighbour(node):
            yield Found(level=Severity.WARN, subject=subject, text=node.problem, mend=_UPGRADE)
        elif node.problem:
            yield Found(level=Severity.FAIL, subject=subject, text=node.problem)


def _is_neighbour(node: GpuNode) -> bool:
    """Say whether a record is of the version before or after ours, as in an upgrade."""
    if node.record is None or len(node.record) > MOST_TEXT_BYTES:
        return False
    try:
        value = json.loads(node.record)
    except (ValueError, RecursionError):
        return False
    version = value.get("version") if isinstance(value, dict) else None
    return isinstance(version, int) and abs(version - VERSION) == 1
