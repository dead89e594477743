"""The quota, and the pods that ask for cards: against the policies, counted, and waiting."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpustack.cli import clusters
from gpustack.cli.doctor.check import Found, Severity, judged, ok
from gpustack.cli.doctor.cluster.facts import NODES, ClusterFacts
from gpustack.cli.output.age import age_text
from gpustack.model.model_name import model_matches
from gpustack.model.quota.quota import Quota
from gpustack.model.request import BadRequest
from gpustack.wire.annotations import annotations_of
from gpustack.wire.kube.mount_paths import hiding_mount
from gpustack.wire.pods import finished, is_bound, leaving, parse_readable
from gpustack.wire.quota import BadQuota, decode_quota

_MOST_ANNOTATIONS: Final = 512  # of a pod that asks for a GPU: as the policy gpustack-decisions
_NEVER: Final = "9999"  # sorts after every moment


def quota(facts: ClusterFacts) -> list[Found]:
    """Say whether the quota can be read, and which models of it no card has."""
    namespace, name = facts.snapshot.names.quota
    subject = f"configmap {namespace}/{name}"
    if facts.snapshot.quota is None:
        return ok(f"there is no {subject}, and so no quota")
    try:
        found = decode_quota(facts.snapshot.quota)
    except BadQuota as error:
        return [Found(level=Severity.FAIL, subject=subject, text=str(error), mend=_edit(facts))]
    count = len(found.namespaces)
    said = f"limits {count} {'namespace' if count == 1 else 'namespaces'}"
    return judged(_models_without_card(facts, found), said)


def _models_without_card(facts: ClusterFacts, quota: Quota) -> Iterator[Found]:
    """Yield the models that no card has: a misspelt one forbids its namespace all cards."""
    there = {card.model for each in facts.gpu_nodes if each.node for card in each.node.cards}
    if NODES in facts.unread or not there:
        return
    for namespace, limit in quota.namespaces.items():
        for name in sorted(limit.cards):
            if not any(model_matches(name, model) for model in there):
                text = f"its quota allows cards of the model {name}, which no node has"
                mend = f"gpustack get cards -o wide; {_edit(facts)}"
                subject = f"namespace {namespace}"
                yield Found(level=Severity.WARN, subject=subject, text=text, mend=mend)


def _edit(facts: ClusterFacts) -> str:
    namespace, name = facts.snapshot.names.quota
    return f'kubectl -n {namespace} edit configmap {name}; docs/reference/pods.md, "Quota"'


def policy(facts: ClusterFacts) -> list[Found]:
    """Say which pods the admission policies would refuse, were they made anew."""
    return judged(_refused(facts), "the policies would admit every pod that is there")


def _refused(facts: ClusterFacts) -> Iterator[Found]:
    for pod in facts.snapshot.pods:
        if finished(pod) or leaving(pod):
            continue
        problems = tuple(_problems(facts, pod))
        if problems:
            yield Found(level=Severity.WARN, subject=_of(pod), text="; ".join(problems))


def _problems(facts: ClusterFacts, pod: Mapping[str, Any]) -> Iterator[str]:
    try:
        asked, problems = parse_readable(facts.keys, pod)
    except BadRequest as error:
        yield str(error)
        return
    yield from map(str, problems)
    for name in () if asked is None else (each.name for each in asked.containers if each.is_share):
        if hidden := hiding_mount(pod, name, is_share=True):
            yield f"container {name}: {hidden} hides what the agent mounts; choose another path"
    own = f"{facts.keys.domain}/predicate-"
    count = sum(not key.startswith(own) for key in annotations_of(pod))
    if asked is not None and count > _MOST_ANNOTATIONS:
        yield f"metadata.annotations: {count}; a pod that asks for a GPU may have" + (
            f" {_MOST_ANNOTATIONS}"
        )


def decisions(facts: ClusterFacts) -> list[Found]:
    """Say which bound pods hold cards that are not counted."""
    problems = (
        Found(level=Severity.FAIL, subject=_of(pod), text=str(problem))
        for pod, problem in clusters.uncounted_pods(facts.keys, facts.snapshot)
    )
    return judged(problems, "the cards of every bound pod are known")


def waiting(facts: ClusterFacts) -> list[Found]:
    """Say how many pods wait for cards, and for how long."""
    found = [pod for pod in facts.snapshot.pods if _waits(facts, pod)]
    if not found:
        return ok("no pod waits for cards")
    oldest = min(found, key=_created)
    age = age_text(_created(oldest), facts.now)
    many = f"{len(found)} {'pod waits' if len(found) == 1 else 'pods wait'} for cards"
    text = f"{many}, {_of(oldest)} the longest: {age}"
    mend = f"gpustack explain {_name(oldest)}"
    return [Found(level=Severity.WARN, text=text, mend=mend)]


def _waits(facts: ClusterFacts, pod: Mapping[str, Any]) -> bool:
    if finished(pod) or leaving(pod) or is_bound(pod) or _gated(pod):
        return False
    try:
        return parse_readable(facts.keys, pod)[0] is not None
    except BadRequest:
        return True


def _gated(pod: Mapping[str, Any]) -> bool:
    """Say whether the scheduler doesn't look at a pod yet."""
    return bool((pod.get("spec") or {}).get("schedulingGates"))


def _created(pod: Mapping[str, Any]) -> str:
    """Return when a pod was created; texts of RFC 3339 in UTC sort by time."""
    created = pod["metadata"].get("creationTimestamp")
    try:
        datetime.datetime.fromisoformat(created)
    except (TypeError, ValueError):
        return _NEVER
    return str(created)


def _name(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


def _of(pod: Mapping[str, Any]) -> str:
    return f"pod {_name(pod)}"
