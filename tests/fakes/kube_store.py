"""The objects of the fake API server, with etcd's rule: one counter, one history.

Every change takes the next ``resourceVersion`` and is remembered, so that a watch can start from
any version that has not been compacted away. Objects are plain JSON dictionaries and are copied
on the way in and out: a caller shares no state with the store.
"""

import bisect
import copy
import dataclasses
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

KubeObject = dict[str, Any]
Key = tuple[str, str, str]  # resource ("pods"), namespace ("" when it has none), name


class StoreError(Exception):
    """An error that the API server answers with a ``Status`` object."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the history; ``before`` decides which event a selector's watcher gets.

    ``at`` is the time of the change, in seconds of the monotonic clock.
    """

    version: int
    kind: str  # ADDED, MODIFIED, DELETED
    key: Key
    after: KubeObject
    before: KubeObject | None
    at: float = dataclasses.field(default_factory=time.monotonic)


class Store:
    """Objects by key, their history, and a condition that watchers wait on."""

    def __init__(self) -> None:
        self.changed = threading.Condition()  # guards everything below
        self.version = 100
        self.oldest = 100  # a watch can start from this version and later ones
        self.history: list[Change] = []
        self._objects: dict[Key, KubeObject] = {}

    def get(self, key: Key) -> KubeObject:
        with self.changed:
            if key not in self._objects:
                raise StoreError(404, "NotFound", f'{key[0]} "{key[2]}" not found')
            return copy.deepcopy(self._objects[key])

    def list(self, resource: str, namespace: str = "") -> tuple[int, list[KubeObject]]:
        """All objects of a resource (of one namespace) and the version of that list."""
        with self.changed:
            return self.version, [
                copy.deepcopy(value)
                for (kind, space, _), value in sorted(self._objects.items())
                if kind == resource and namespace in {"", space}
            ]

    def create(self, key: Key, value: KubeObject) -> KubeObject:
        with self.changed:
            if key in self._objects:
                raise StoreError(409, "AlreadyExists", f'{key[0]} "{key[2]}" already exists')
            value = copy.deepcopy(value)
            metadata = value.setdefault("metadata", {})
            metadata["name"] = key[2]
            if key[1]:
                metadata["namespace"] = key[1]
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            return self._commit("ADDED", key, value, None)

    def update(self, key: Key, change: Callable[[KubeObject], KubeObject]) -> KubeObject:
        """Replace an object by what ``change`` makes of a copy; no change, no new version."""
        with self.changed:
            before = self.get(key)
            after = change(copy.deepcopy(before))
            if after == before:
                return after
            return self._commit("MODIFIED", key, after, before)

    def delete(self, key: Key) -> KubeObject:
        with self.changed:
            before = self.get(key)
            del self._objects[key]
            return self._commit("DELETED", key, copy.deepcopy(before), before)

    def compact(self) -> None:
        """Forget the history: a watch from an older version gets 410."""
        with self.changed:
            self.oldest = self.version
            self.history.clear()

    def backup(self) -> tuple[int, dict[Key, KubeObject]]:
        """What etcd's snapshot holds: the version and the objects."""
        with self.changed:
            return self.version, copy.deepcopy(self._objects)

    def restore(self, backup: tuple[int, dict[Key, KubeObject]], *, bump: int = 0) -> None:
        """Go back to a backup, as `etcdutl snapshot restore` does.

        ``bump`` is its `--bump-revision`, which comes with `--mark-compacted`: versions go on
        above it, and a watch from before gets 410; the objects keep their old versions.
        """
        with self.changed:
            version, objects = backup
            self._objects = copy.deepcopy(objects)
            self.version = version + bump
            self.oldest = self.version if bump else min(self.oldest, version)
            self.history = [change for change in self.history if change.version <= version]
            self.changed.notify_all()

    def changes_after(self, version: int, resource: str, namespace: str) -> Iterator[Change]:
        """The remembered changes newer than ``version``; hold ``changed`` while iterating."""
        start = bisect.bisect_right(self.history, version, key=lambda change: change.version)
        for at in range(start, len(self.history)):
            change = self.history[at]
            if change.key[0] == resource and namespace in {"", change.key[1]}:
                yield change

    def _commit(
        self, kind: str, key: Key, value: KubeObject, before: KubeObject | None
    ) -> KubeObject:
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self._objects[key] = value
        self.history.append(
            Change(
                version=self.version,
                kind=kind,
                key=key,
                after=copy.deepcopy(value),
                before=before,
            )
        )
        self.changed.notify_all()
        return copy.deepcopy(value)
