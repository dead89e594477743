"""The nodes of GPU hosts: ready, labelled, alone with their cards, and offering what they have."""

import re
from collections.abc import Iterator
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged
from gpustack.cli.doctor.cluster.facts import GPU_LABEL, QUOTA, ClusterFacts, GpuNode
from gpustack.model.cluster.eligibility import NOT_READY, OWN_TAINTS, states
from gpustack.model.node import Node
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire.quota import BadQuota, decode_quota

# NVIDIA's resources that are cards; its network cards have names of a site's choice (the same rule
# as in roles/preflight/filter_plugins/preflight_gpu_software.py).
_CARDS: Final = re.compile(r"nvidia\.com/(.*gpu|mig-|[A-Z])")
_QUARANTINED: Final = "Quarantined"  # the reason of a card that a person took out of use
_SHOWN: Final = 8  # cards of a node that one line names


def labels(facts: ClusterFacts) -> list[Found]:
    """Say whether there are GPU hosts, each with the label that site.yml lays."""
    if not facts.gpu_nodes:
        text = f"no node has cards, or the label {GPU_LABEL}=enable"
        return [Found(level=Severity.FAIL, text=text)]
    problems = (
        Found(level=Severity.WARN, subject=_of(node), text=f"lacks the label {GPU_LABEL}=enable")
        for node in facts.gpu_nodes
        if node.host.labels.get(GPU_LABEL) != "enable"
    )
    return judged(problems, _many(facts, "labelled"))


def ready(facts: ClusterFacts) -> list[Found]:
    """Say which nodes take no new pods."""
    return judged(_closed(facts), _many(facts, "ready"))


def _closed(facts: ClusterFacts) -> Iterator[Found]:
    for node in facts.gpu_nodes:
        # A taint of the site's own keeps other pods off GPU hosts, as it should.
        told = [
            each
            for each in states(node.host)
            if not each.startswith("tainted ") or each.startswith(f"tainted {OWN_TAINTS}")
        ]
        if NOT_READY in told:
            yield Found(level=Severity.FAIL, subject=_of(node), text=", ".join(told))
        elif told:
            mend = f"kubectl describe node {node.name}; if it is cordoned, kubectl uncordon it"
            yield Found(level=Severity.WARN, subject=_of(node), text=", ".join(told), mend=mend)


def other_plugins(facts: ClusterFacts) -> list[Found]:
    """Say which nodes offer cards by another plugin."""
    return judged(_others(facts), "no node offers cards by another plugin")


def _others(facts: ClusterFacts) -> Iterator[Found]:
    for node in facts.gpu_nodes:
        for name, amount in node.allocatable.items():
            if _CARDS.match(name) and str(amount) != "0":
                yield Found(level=Severity.FAIL, subject=_of(node), text=f"offers {amount} {name}")
        if _is_originals(node):
            text = f"offers {node.cores} {facts.keys.vcuda_core}, and no agent describes its cards"
            mend = 'docs/migration.md, "Moving a node from gpu-manager"'
            yield Found(level=Severity.WARN, subject=_of(node), text=text, mend=mend)


def _is_originals(node: GpuNode) -> bool:
    """Say whether the original gpu-manager, which writes no record, seems to run a node."""
    return node.record is None and bool(node.cores)


def capacity(facts: ClusterFacts) -> list[Found]:
    """Say which nodes offer other amounts than their healthy cards have."""
    return judged(_differing(facts), "each node offers what its healthy cards have")


def _differing(facts: ClusterFacts) -> Iterator[Found]:
    for node in facts.gpu_nodes:
        if node.node is None:
            continue
        cards = [node.node.cards[index] for index in node.node.healthy]
        wanted = (
            (facts.keys.vcuda_core, node.cores, CORES_PER_CARD * len(cards)),
            (facts.keys.vcuda_memory, node.memory_units, sum(each.memory_units for each in cards)),
        )
        differences = [
            f"{'no whole number' if offered is None else offered} {name}, not {has}"
            for name, offered, has in wanted
            if offered != has
        ]
        if differences:
            # A kubelet that has lost the agent offers nothing: the page calls that AgentSilent.
            silent = "its agent is silent (AgentSilent): " if cards and node.cores == 0 else ""
            offers = f"offers {' and '.join(differences)}, which {len(cards)} healthy cards have"
            text = f"{silent}{offers}"
            yield Found(level=Severity.FAIL, subject=_of(node), text=text)


def pools(facts: ClusterFacts) -> list[Found]:
    """Say which nodes are in no pool where others are, and which pools of quotas have no node."""
    label, named = facts.snapshot.names.labels.pool, _quota_pools(facts)
    there = {node.host.labels.get(label, "") for node in facts.gpu_nodes}
    problems = [
        Found(level=Severity.WARN, subject=_of(node), text=f"lacks the label {label}")
        for node in facts.gpu_nodes
        if not node.host.labels.get(label) and (named or there != {""})
    ]
    problems += [
        Found(
            level=Severity.WARN,
            subject=f"namespace {namespace}",
            text=f"its quota allows the pool {pool}, in which no node is",
        )
        for pool, namespace in named.items()
        if pool not in there
    ]
    known = ", ".join(sorted(there - {""}))
    return judged(problems, f"pools: {known}" if known else "there are no pools")


def _quota_pools(facts: ClusterFacts) -> dict[str, str]:
    """Return the pools that quotas name, each with a namespace that names it."""
    if QUOTA in facts.unread:
        return {}
    try:
        quota = decode_quota(facts.snapshot.quota)
    except BadQuota:
        return {}  # the check of the quota says so
    return {pool: name for name in quota.namespaces if (of := quota.of(name)) for pool in of.pools}


def cards(facts: ClusterFacts) -> list[Found]:
    """Say which cards take no new pods."""
    count = sum(len(node.node.cards) for node in facts.gpu_nodes if node.node)
    return judged(_unhealthy(facts), f"{count} cards are healthy")


def _unhealthy(facts: ClusterFacts) -> Iterator[Found]:
    for node in facts.gpu_nodes:
        for level, quarantined in ((Severity.FAIL, False), (Severity.WARN, True)):
            words = list(_card_words(node.node, quarantined=quarantined)) if node.node else []
            if words:
                more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
                text = f"{', '.join(words[:_SHOWN])}{more}"
                yield Found(level=level, subject=_of(node), text=text)


def _card_words(node: Node, *, quarantined: bool) -> Iterator[str]:
    for card in node.cards:
        if not card.healthy and (card.reason == _QUARANTINED) == quarantined:
            yield f"card {card.minor} is closed: {card.reason or 'no reason given'}"


def _of(node: GpuNode) -> str:
    return f"node {node.name}"


def _many(facts: ClusterFacts, what: str) -> str:
    count = len(facts.gpu_nodes)
    return f"{count} GPU {'node is' if count == 1 else 'nodes are'} {what}"
