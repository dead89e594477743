"""What one agent's metrics say of its cards and containers at one moment."""

import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gpustack.adapters import http_get, metrics_text
from gpustack.adapters.metrics_text import Sample
from gpustack.cli.top.node_use import AgentUsageError, MeasuredCard, MeasuredContainer, MeasuredNode
from gpustack.model.units import CORES_PER_CARD, MOST_CARDS
from gpustack.wire.one_line import one_line

_SECONDS: Final = 10.0  # the agent answers, or says that it can't, within this time
_MOST_BYTES: Final = 16 << 20  # 256 cards with 100 shares each take some 10 MB
_MOST_CONTAINERS: Final = 100 * MOST_CARDS  # a share has a hundredth of a card at least
_LONGEST_NAME: Final = 253  # characters of a namespace, pod, container or node
_OK: Final = 200
_MIB: Final = 1 << 20

_BUILD: Final = "gpustack_build_info"
_HEALTHY: Final = "gpustack_card_healthy"
_BUSY: Final = "gpustack_card_busy_ratio"
_GIVEN: Final = "gpustack_card_allocated_cores_ratio"
_MEMORY: Final = "gpustack_card_memory_bytes"
_MEMORY_USED: Final = "gpustack_card_memory_used_bytes"
_MEMORY_GIVEN: Final = "gpustack_card_allocated_memory_bytes"
_CONTAINER_BUSY: Final = "container_gpu_utilization"
_CONTAINER_CORES: Final = "container_request_gpu_utilization"
_CONTAINER_MEMORY_USED: Final = "container_gpu_memory_total"
_CONTAINER_MEMORY: Final = "container_request_gpu_memory"
_NAMES: Final = (
    _BUILD, _HEALTHY, _BUSY, _GIVEN, _MEMORY, _MEMORY_USED, _MEMORY_GIVEN,
    _CONTAINER_BUSY, _CONTAINER_CORES, _CONTAINER_MEMORY_USED, _CONTAINER_MEMORY,
)  # fmt: skip

# The label whose value `total` marks the sum of a container's cards.
_TOTALS: Final = {
    _CONTAINER_BUSY: "gpu",
    _CONTAINER_MEMORY_USED: "gpu_memory",
    _CONTAINER_MEMORY: "req_of_gpu_memory",
}

_Samples = Mapping[str, Sequence[Sample]]


def read(agent: str) -> MeasuredNode:
    """Ask an agent at `http://HOST:PORT`.

    Raises:
        AgentUsageError: it gives no usable answer.
    """
    try:
        answer = http_get.get(f"{agent}/metrics", seconds=_SECONDS, max_bytes=_MOST_BYTES)
        if answer.status != _OK:
            raise AgentUsageError(
                f"{agent}: answers with status {answer.status}: no agent is there"
            )
        found = metrics_text.samples(answer.body, _NAMES)
        return read_samples(found, urllib.parse.urlsplit(agent).netloc)
    except http_get.HttpGetError as error:
        raise AgentUsageError(f"{error}: does gpustack-agent run there?") from error
    except (metrics_text.MetricsTextError, LookupError, OverflowError) as error:
        raise AgentUsageError(f"{agent}: {error}") from error


def read_samples(found: _Samples, address: str) -> MeasuredNode:
    """Return a node's usage; where nothing names the node, its address does.

    Raises:
        AgentUsageError: there are no metrics of an agent, or more than a node can have.
    """
    if not found[_BUILD]:
        raise AgentUsageError(f"{address}: has no {_BUILD}: no agent answers there")
    if len(found[_HEALTHY]) > MOST_CARDS or len(found[_CONTAINER_CORES]) > _MOST_CONTAINERS:
        raise AgentUsageError(f"{address}: has more cards or containers than a node can have")
    containers = tuple(_containers(found))
    named = (each.labels.get("node") for each in (*found[_BUILD], *found[_CONTAINER_CORES]))
    node = next((each for each in named if each), address)
    return MeasuredNode(node=_name(node), cards=tuple(_cards(found)), containers=containers)


def _cards(found: _Samples) -> Iterable[MeasuredCard]:
    busy, used = _by(found[_BUSY], "uuid"), _by(found[_MEMORY_USED], "uuid")
    given, memory = _by(found[_GIVEN], "uuid"), _by(found[_MEMORY], "uuid")
    given_memory = _by(found[_MEMORY_GIVEN], "uuid")
    for each in found[_HEALTHY]:
        key = (each.labels.get("uuid", ""),)
        ratio, bytes_used = busy.get(key), used.get(key)
        yield MeasuredCard(
            minor=_name(each.labels.get("minor", "")),
            healthy=each.value == 1,
            busy_cores=None if ratio is None else CORES_PER_CARD * ratio,
            given_cores=CORES_PER_CARD * given.get(key, 0.0),
            memory=int(memory.get(key, 0.0)),
            used_memory=None if bytes_used is None else int(bytes_used),
            given_memory=int(given_memory.get(key, 0.0)),
        )


def _containers(found: _Samples) -> Iterable[MeasuredContainer]:
    labels = ("namespace", "pod_name", "container_name")
    totals = {
        name: _by((each for each in found[name] if each.labels.get(of) == "total"), *labels)
        for name, of in _TOTALS.items()
    }
    for key, cards in _by(found[_CONTAINER_CORES], *labels).items():
        namespace, pod, container = map(_name, key)
        yield MeasuredContainer(
            namespace=namespace,
            pod=pod,
            container=container,
            used_cores=totals[_CONTAINER_BUSY].get(key, 0.0),
            guaranteed_cores=CORES_PER_CARD * cards,
            used_memory=int(_MIB * totals[_CONTAINER_MEMORY_USED].get(key, 0.0)),
            guaranteed_memory=int(_MIB * totals[_CONTAINER_MEMORY].get(key, 0.0)),
        )


def _by(found: Iterable[Sample], *labels: str) -> dict[tuple[str, ...], float]:
    return {tuple(each.labels.get(name, "") for name in labels): each.value for each in found}


def _name(text: str) -> str:
    return one_line(text, _LONGEST_NAME)
