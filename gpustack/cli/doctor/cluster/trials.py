"""What trial pods were given, and what they saw of it: values, and how they are judged.

A trial pod runs the driver's own ``nvidia-smi``, which the agent mounts: the image needs a C
library and no program. In a share it goes through the hook, as a tenant's programs do.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpustack.cli.doctor.check import Found, Severity, judged
from gpustack.cli.doctor.cluster.facts import SHARE, WHOLE_CARD, ClusterFacts, Trial, TrialKind
from gpustack.model.errors import GpustackError
from gpustack.model.node import Node
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.annotations import decode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.kube.pod_history import unschedulable
from gpustack.wire.pods import parse_limits

_MIB: Final = 1 << 20
_SUCCEEDED: Final = "Succeeded"
# What `nvidia-smi --query-gpu=uuid,memory.total --format=csv,noheader,nounits` prints of a card.
_SEEN: Final = re.compile(r"(GPU-[0-9A-Za-z-]{1,64}), ([0-9]{1,9})")
_SHOWN: Final = 200  # characters of what a pod printed


def shares(facts: ClusterFacts) -> list[Found]:
    """Say on which nodes a share wasn't what it was promised."""
    return _judge(facts, SHARE)


def whole_cards(facts: ClusterFacts) -> list[Found]:
    """Say on which nodes a whole card wasn't what it was promised."""
    return _judge(facts, WHOLE_CARD)


def _judge(facts: ClusterFacts, kind: TrialKind) -> list[Found]:
    tried = [each for each in facts.trials if each.kind is kind]
    good = f"what it saw is what it was given, on {len(tried)} nodes"
    return judged(_problems(facts, tried), good)


def _problems(facts: ClusterFacts, tried: list[Trial]) -> Iterator[Found]:
    nodes = {each.name: each.node for each in facts.gpu_nodes}
    for trial in tried:
        subject = f"node {trial.node}"
        if not trial.room:
            mend = "run it again when there is room"
            yield Found(level=Severity.WARN, subject=subject, text=trial.problem, mend=mend)
        elif text := trial.problem or _difference(facts.keys, trial, nodes.get(trial.node)):
            yield Found(level=Severity.FAIL, subject=subject, text=text)


def _difference(keys: Keys, trial: Trial, node: Node | None) -> str:
    """Say what is wrong with a pod that was made; empty where nothing is."""
    pod = trial.pod or {}
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase != _SUCCEEDED:
        printed = f"; it printed: {trial.printed[:_SHOWN]}" if trial.printed else ""
        return f"{phase}: {_why(pod) or 'nothing says why'}{printed}"
    try:
        given = _given(keys, trial.kind, pod, node)
    except GpustackError as error:
        return f"it ran, and its decision can't be read: {error}"
    seen = dict(_SEEN.findall(trial.printed))
    if seen == given:
        return ""
    return f"it was given {_text(given)}, and saw {_text(seen) or trial.printed[:_SHOWN] or 'none'}"


def _why(pod: Mapping[str, Any]) -> str:
    """Return what scheduler, kubelet or runtime say of a pod that didn't do its work."""
    status = pod.get("status") or {}
    texts = [unschedulable(status)[0], status.get("reason"), status.get("message")]
    for container in status.get("containerStatuses") or ():
        for state in (container.get("state") or {}).values():
            texts += [state.get("reason"), state.get("message")]
    return ": ".join(text for text in texts if isinstance(text, str) and text)


def _given(
    keys: Keys, kind: TrialKind, pod: Mapping[str, Any], node: Node | None
) -> dict[str, str]:
    """Return what a pod was promised: cards by UUID, each with its memory in MiB.

    Raises:
        GpustackError: the decision can't be read.
    """
    request = parse_limits(keys, pod)
    decision = None if request is None else decode_decision(keys, pod, request, node)
    if decision is None:
        return {}
    total = {card.uuid: card.memory_bytes for card in (node.cards if node else ())}
    share = kind.memory_units * MEMORY_UNIT_BYTES
    return {
        uuid: str((share or total.get(uuid, 0)) // _MIB)
        for container in decision.placement.containers
        for uuid in container.uuids
    }


def _text(cards: Mapping[str, str]) -> str:
    return ", ".join(f"{uuid} with {mib} MiB" for uuid, mib in cards.items())
