"""A cluster's changes, for ``gpustack get -w``: each time that something changed, all there is.

Pods, nodes and the quota are watched one by one, so a moment's answer may know a pod and not yet
its node; the next answer does.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpustack.adapters.kube import KubeClient
from gpustack.adapters.kube.watch import Watcher, as_json
from gpustack.cli.output import printing
from gpustack.wire.kube import object_validation

_PATHS: Final = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}
_SETTLE_SECONDS: Final = 0.5  # a job's pods come together, and a list is made of all of them
_LOOK_SECONDS: Final = 1.0  # how soon a lost watch is told

_Key = tuple[str, str, str]


class ClusterFollower:
    """Keeps a cluster's objects as its watches bring them."""

    def __init__(self, client: KubeClient, quota: tuple[str, str] | None) -> None:
        """Follow nodes and pods, and the quota's ConfigMap (namespace, name) where it is given."""
        self._changed = threading.Condition()
        self._objects: dict[_Key, dict[str, Any]] = {}  # guarded by _changed
        self._news = False  # guarded by _changed
        self._watchers = [self._watcher(client, kind, path, "") for kind, path in _PATHS.items()]
        if quota is not None:
            path = f"/api/v1/namespaces/{quota[0]}/configmaps"
            self._watchers.append(
                self._watcher(client, "ConfigMap", path, f"metadata.name={quota[1]}")
            )
        # What a watch has to tell a person, `problem` says in one line.
        logging.getLogger("gpustack.adapters.kube").addHandler(logging.NullHandler())

    def _watcher(
        self, client: KubeClient, kind: str, path: str, field_selector: str
    ) -> Watcher[dict[str, Any]]:
        def on_sync(items: list[dict[str, Any]]) -> None:
            found = {_key(kind, item): item for item in items if _usable(item)}
            with self._changed:
                for key in [key for key in self._objects if key[0] == kind]:
                    del self._objects[key]
                self._objects.update(found)
                self._tell()

        def on_event(event: str, item: dict[str, Any]) -> None:
            if not _usable(item):
                return
            with self._changed:
                if event == "DELETED":
                    self._objects.pop(_key(kind, item), None)
                else:
                    self._objects[_key(kind, item)] = item
                self._tell()

        return Watcher(
            client,
            path,
            decode=as_json,
            on_sync=on_sync,
            on_event=on_event,
            field_selector=field_selector,
        )

    def _tell(self) -> None:
        self._news = True
        self._changed.notify_all()

    def lists(self) -> Iterator[dict[str, Any]]:
        """Yield the cluster as a List at first and after changes, until the caller ends it."""
        for watcher in self._watchers:
            watcher.start()
        try:
            yield from self._lists()
        finally:
            for watcher in self._watchers:
                watcher.stop()

    def _lists(self) -> Iterator[dict[str, Any]]:
        told: set[str] = set()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._news, timeout=_LOOK_SECONDS)
                self._news, news = False, self._news
                items = [
                    {"apiVersion": "v1", "kind": kind, **item}
                    for (kind, _, _), item in self._objects.items()
                ]
            problems = {watcher.problem for watcher in self._watchers if watcher.problem}
            for problem in sorted(problems - told):
                printing.tell(f"{problem}; asking again")
            told = problems
            if news and all(watcher.synced.is_set() for watcher in self._watchers):
                yield {"apiVersion": "v1", "kind": "List", "items": items}
                threading.Event().wait(_SETTLE_SECONDS)


def _key(kind: str, item: Mapping[str, Any]) -> _Key:
    metadata = item["metadata"]
    return kind, metadata.get("namespace") or "", metadata["name"]


def _usable(item: dict[str, Any]) -> bool:
    """Say whether an object has the API's shape; one that hasn't is told, and left out."""
    problem = object_validation.problem(item)
    if problem:
        printing.tell(f"an object of a watch is left out: it is wrong at {problem}")
    return not problem
