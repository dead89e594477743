"""Dropping one condition: another topology or model, other cards or nodes, a pool for a node."""

from collections.abc import Iterator
from dataclasses import replace

from gpustack.model.explain.query import Change, Kind, Query
from gpustack.model.model_name import label_safe_model
from gpustack.model.request import ANY, Selector, Topology

# From the narrowest to none at all; what is asked now is passed over.
_TOPOLOGIES = (
    Topology.NVLINK,
    Topology.SINGLE_SWITCH,
    Topology.SINGLE_NUMA,
    Topology.BEST_EFFORT,
)


def search(question: Query) -> Iterator[Change]:
    """Yield each condition that alone stands in the way."""
    yield from _topology(question)
    yield from _models(question)
    yield from _uuids(question)
    yield from _barred(question)
    yield from _pool(question)


def _topology(question: Query) -> Iterator[Change]:
    now = question.request.topology
    for wanted in _TOPOLOGIES[_TOPOLOGIES.index(now) + 1 :]:
        request = replace(question.request, topology=wanted)
        placement = question.somewhere(request)
        if placement is not None:
            text = f"the pod demands topology {wanted.value} instead of {now.value}"
            yield Change(kind=Kind.OTHER_TOPOLOGY, text=text, request=request, placement=placement)
            return


def _models(question: Query) -> Iterator[Change]:
    """Ask for each model of the cluster alone, and name all that would do."""
    if question.request.models == ANY:
        return
    names = {
        label_safe_model(card.model)
        for node in question.nodes
        for card in node.cards
        if card.model and not question.request.accepts(card.model, card.uuid)
    }
    found = []
    for name in sorted(names):
        request = replace(question.request, models=Selector(include=(name,)))
        placement = question.somewhere(request)
        if placement is not None:
            found.append((name, request, placement))
    if found:
        models = tuple(name for name, _, _ in found)
        yield Change(
            kind=Kind.OTHER_MODEL,
            text=f"the pod accepts model {' or '.join(models)}",
            request=found[0][1],
            placement=found[0][2],
            names=models,
        )


def _uuids(question: Query) -> Iterator[Change]:
    if question.request.uuids == ANY:
        return
    request = replace(question.request, uuids=ANY)
    placement = question.somewhere(request)
    if placement is not None:
        uuids = tuple(uuid for each in placement.containers for uuid in each.uuids if uuid)
        yield Change(
            kind=Kind.OTHER_UUID,
            text=f"the pod accepts other cards, such as {', '.join(uuids)} of {placement.node}",
            request=request,
            placement=placement,
            names=uuids,
        )


def _barred(question: Query) -> Iterator[Change]:
    """Name a node that has the cards, but whose cordon, taint or labels keep the pod away."""
    for name, refusal in question.barred.items():
        placement = question.fits(question.cluster.nodes[name], question.request)
        if placement is not None:
            yield Change(
                kind=Kind.OTHER_NODE,
                text=f"node {name} takes the pod (now: {refusal.detail})",
                request=question.request,
                placement=placement,
                names=(name,),
            )
            return


def _pool(question: Query) -> Iterator[Change]:
    """Name a node in no pool, which a quota that names pools can't be made to allow."""
    limit = question.cluster.quota.of(question.pod.namespace)
    if limit is None or not limit.pools:
        return
    for node in question.kinds:
        there = replace(node, pool=limit.pools[0])
        placement = None if node.pool else question.fits(there, question.request)
        if placement is not None:
            yield Change(
                kind=Kind.NODE_IN_POOL,
                text=f"node {node.name} is put into pool {' or '.join(map(repr, limit.pools))}",
                request=question.request,
                placement=placement,
                names=(node.name,),
            )
            return
