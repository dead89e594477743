"""Actions of users, operators and nodes: pods come and go, nodes and quotas change."""

import contextlib
import dataclasses
import json
from typing import Any

from gpustack.model.node import Node
from tests.control_plane import fleet
from tests.extender.mini_cluster import limits, pod
from tests.extender.stateful import pods
from tests.extender.stateful.events.ops import NAMES, NODES, Ask, chosen
from tests.extender.stateful.hosts import UNITS, Host
from tests.extender.stateful.pods import KEYS
from tests.extender.stateful.quotas import QUOTAS
from tests.extender.stateful.world import MODELS, POOLS, World
from tests.fakes.kube_store import KubeObject, StoreError
from tests.model.machines import card, grouped

_SMALL = {"resources": {"limits": limits(30, 90)}}
_DELETED = "2026-01-01T00:00:00Z"
_CONFIG_MAP = "configmaps", "kube-system", "gpuquota"


class Users:
    """Users, operators and nodes; they write to the API server as they like."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._truth = world.truth
        self._store = world.server.store
        for name in NODES:
            self._write_node(name, fresh(name))

    # Nodes and quotas.

    def reconfigure(self, what: str, card: int, how: str, quota: int) -> None:
        if what == "quota":
            self.set_quota(QUOTAS[quota % len(QUOTAS)])
        else:
            self.change_node(what, card, how)

    def change_node(self, name: str, card: int, how: str) -> None:
        host = self._truth.hosts.now(name)
        if how == "gone" and host.models:
            self._store.delete(("nodes", "", name))
            self._truth.hosts.set(name, self._store.version, Host())
        elif how == "moved" and host.models:
            pool = next(each for each in POOLS.values() if each != host.pool)
            self._write_node(name, dataclasses.replace(host, pool=pool))
        elif how == "back" or (how in {"sick", "well"} and host.models):
            host = host if host.models else fresh(name)
            well = list(host.well)
            well[min(card, len(well) - 1)] = how != "sick"
            self._write_node(name, dataclasses.replace(host, well=tuple(well)))

    def _write_node(self, name: str, host: Host) -> None:
        made = (
            card(at, UNITS[model], uuid=f"GPU-{name}-{at}", model=model, healthy=well)
            for at, (model, well) in enumerate(zip(host.models, host.well, strict=True))
        )
        links = grouped(len(host.models))
        described = Node(name=name, cards=tuple(made), links=links, pool=host.pool)
        value = fleet.gpu_node(described)
        value["metadata"]["uid"] = f"node-{name}"
        key = "nodes", "", name
        if self._truth.hosts.now(name).models:
            stored = self._store.update(key, lambda old: _replaced(old, value))
        else:
            stored = self._store.create(key, value)
        self._truth.hosts.set(name, pods.version(stored), host)

    def set_quota(self, quota: KubeObject | str | None) -> None:
        there = bool(self._store.seen(_CONFIG_MAP[0]))
        if quota is None:
            if there:
                self._store.delete(_CONFIG_MAP)
            return
        data = {"gpu_quota": "{" if isinstance(quota, str) else json.dumps(quota)}
        if there:
            self._store.update(_CONFIG_MAP, lambda old: {**old, "data": data})
        else:
            metadata = {"name": _CONFIG_MAP[2], "namespace": _CONFIG_MAP[1], "uid": "quota"}
            self._store.create(_CONFIG_MAP, {"metadata": metadata, "data": data})

    # Pods.

    def arrive(self, ask: Ask, namespace: str, more: str, priority: int, copies: int = 1) -> None:
        """Create pods while names are free; finished pods go if none is."""
        for _ in range(copies):
            if not self._names():
                for each in filter(pods.finished, self._truth.pods()):
                    self._store.delete(pods.key(each))
            for name in self._names()[:1]:
                value = pod(name, *ask, priority=priority)
                if more == "sidecar":
                    sidecar = {"name": "s", "restartPolicy": "Always", **_SMALL}
                    value["spec"]["initContainers"] = [sidecar]
                if more == "second":
                    value["spec"]["containers"].append({"name": "second", **_SMALL})
                if more == "gated":
                    value["spec"]["schedulingGates"] = [{"name": "wait"}]
                if more == "choosy":
                    value["metadata"]["annotations"][KEYS.gpu_model] = "A40"
                value["metadata"]["uid"] = f"u{self._world.number()}"
                value["metadata"]["namespace"] = namespace
                self._store.create(pods.key(value), value)

    def _names(self) -> list[str]:
        taken = {each["metadata"]["name"] for each in self._truth.pods()}
        return [name for name in NAMES if name not in taken]

    def touch(self, whiches: list[int], how: str) -> None:
        for which in whiches:
            for value in chosen(self._truth.pods(), which):
                self.change(value, how, which)

    def change(self, value: KubeObject, how: str, which: int = 0) -> None:
        metadata: dict[str, Any] = {}
        changes: KubeObject = {"metadata": metadata}
        if how in {"delete", "replace"}:
            with contextlib.suppress(StoreError):  # another writer was quicker
                self._store.delete(pods.key(value))
                if how == "replace":
                    self._create_again(value)
            return
        if how == "finish":
            changes["status"] = {"phase": "Succeeded"}
        elif how == "end" and pods.bound(value):
            metadata["deletionTimestamp"] = _DELETED
        elif how == "label":
            metadata["labels"] = {"touched": str(self._store.version)}
        elif how == "choose":
            metadata["annotations"] = {KEYS.gpu_model: "A40"}
        elif how == "ungate":
            changes["spec"] = {"schedulingGates": None}
        elif how == "strip":
            metadata["annotations"] = dict.fromkeys(dict(pods.text_of(value)))
        elif how == "forge" and not pods.bound(value):
            metadata["annotations"] = self._forged(value, which)
        self._truth.decision(pods.patch(self._store, value, **changes))

    def _create_again(self, value: KubeObject) -> None:
        """Another pod of the same name, which asks the same."""
        fresh = pod(pods.key(value)[2])
        fresh["spec"] = {k: v for k, v in value["spec"].items() if k != "nodeName"}
        fresh["metadata"]["uid"] = f"u{self._world.number()}"
        fresh["metadata"]["namespace"] = pods.key(value)[1]
        self._store.create(pods.key(value), fresh)

    def _forged(self, value: KubeObject, which: int) -> dict[str, str | None]:
        count = max(1, pods.asked(value)[0][1] // pods.CORES)
        return {
            KEYS.predicate_node: NODES[which % 2],
            KEYS.predicate_time: str(self._world.instances[0].now_ns()),
            f"{KEYS.idx_prefix}0": ",".join(map(str, range(count))),
            f"{KEYS.uuid_prefix}0": None,
            # Sometimes for a container that doesn't exist, which makes the whole text unreadable.
            f"{KEYS.idx_prefix}7": "0" if which % 3 == 0 else None,
        }


def fresh(name: str) -> Host:
    """A node in its first state."""
    models = MODELS[name]
    return Host(models=models, well=(True,) * len(models), pool=POOLS[name])


def _replaced(old: KubeObject, new: KubeObject) -> KubeObject:
    metadata = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
    return {**new, "metadata": {**old["metadata"], **metadata}}
