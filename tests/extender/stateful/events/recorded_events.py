"""Common parts of the stories that are written by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.extender.stateful import pods
from tests.extender.stateful.instance import Instance, NoAnswer
from tests.extender.stateful.machine import Cluster
from tests.extender.stateful.quotas import FREE
from tests.fakes.kube_store import KubeObject

SHARE, CARD, BOTH = (40, 100), (100, None), (200, None)
# An event at a call: calls to let pass, whether only writes count, the event, and one meanwhile.
Happens = tuple[int, bool, str, Callable[[], Any]]


def nothing() -> None:
    """No event meanwhile."""


def arrived(cluster: Cluster, ask: tuple[int, int | None], namespace: str = FREE) -> KubeObject:
    """A new pod that no watch has shown yet."""
    before = set(map(pods.uid, cluster.truth.pods()))
    cluster.users.arrive(ask, namespace, "", 0)
    return next(each for each in cluster.truth.pods() if pods.uid(each) not in before)


def is_bound(cluster: Cluster, value: KubeObject) -> bool:
    there = cluster.truth.pod(pods.uid(value))
    return there is not None and bool(pods.bound(there))


def refused(instance: Instance, value: KubeObject, node: str, words: str) -> None:
    """The pod isn't bound, and keeps no cards."""
    with pytest.raises(NoAnswer, match=words):
        instance.bind(value, node)
    assert instance.service.cache.placement(pods.uid(value)) is None
