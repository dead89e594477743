"""A process as the API server sees it: the objects that it has seen, and the judge of its calls."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.extender.stateful.api_server.server import Call, Server
from tests.fakes.kube_store import KubeObject, StoreError


class Crash(BaseException):
    """The process was killed at this point; the process itself can't catch it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The objects that a caller had seen at its decision, and the newest version of that time."""

    shown: Mapping[str, int]
    nodes_at: int
    obliged: int
    quota: KubeObject | None
    current: bool
    version: int


class Judge(Protocol):
    """Gets the decisions of a process; see ``truth``."""

    def decided(self, author: "Caller", call: Call, known: Known) -> None:
        """A decision took effect."""

    def doubt(self, author: "Caller", call: Call, status: int) -> None:
        """The author can't know whether it did, or will; ``status`` is 0 without an answer."""

    def told(self, author: "Caller", call: Call) -> None:
        """The author knows that it did."""


class Caller:
    """A process, and the objects that it has seen so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.shown: dict[str, int] = {}  # newest version of each pod and node, by UID
        self.nodes_at = 0  # version of its newest list of all nodes
        self.quota: KubeObject | None = None
        self.no_quota_yet = True  # every quota so far was unusable: it decides nothing
        self.fresh_at = float("-inf")  # last acknowledged decision, or consistent list
        # The version that it must know: the newest when it began to decide after a pause.
        self.obliged = 0
        self._paused_at = float("nan")  # the start of that pause
        self.busy: set[str] = set()  # pods (UID) of its open requests
        self.deliver = 0
        self.bookmarks = False
        self.known: Known | None = None  # at the decision that this request writes
        self.locked: Callable[[], bool] = lambda: False
        self._watched: dict[str, int] = {}  # how far each watch has come

    def begin(self, server: Server, idle_seconds: float) -> None:
        """Oblige the process to know all objects, for a request after a pause.

        A request that comes while an earlier one still reads after the same pause decides with it,
        on the objects that it sees: another instance that decides then decides at the same time.
        """
        idle = server.clock.seconds - self.fresh_at > idle_seconds
        if idle and not (self.busy and self._paused_at == self.fresh_at):
            self.obliged, self._paused_at = server.store.version, self.fresh_at

    def die(self) -> None:
        """End the process: it sends no more requests.

        Raises:
            Crash: always.
        """
        self.alive = False
        raise Crash(self.name)

    def show(self, value: KubeObject) -> None:
        """Remember that the process got an object, alone or in a list."""
        for each in value.get("items") or (value,):
            metadata = each.get("metadata") or {}
            if "uid" in metadata:
                version = int(metadata["resourceVersion"])
                self.shown[metadata["uid"]] = max(version, self.shown.get(metadata["uid"], 0))

    def listed(self, resource: str, version: int) -> None:
        """Remember that the process got all objects of a resource."""
        self.watched(resource, version)
        if resource == "nodes":
            self.nodes_at = version

    def watched(self, resource: str, version: int) -> None:
        """Remember how far a watch has come."""
        self._watched[resource] = max(version, self._watched.get(resource, 0))

    def learn_quota(self, value: KubeObject | None) -> None:
        """Take a ConfigMap from the watch; while it is unreadable the last good one holds."""
        try:
            self.quota = None if value is None else json.loads(value["data"]["gpu_quota"])
        except ValueError:
            return
        self.no_quota_yet = False

    def current(self, server: Server) -> bool:
        """Whether the process has seen all objects: by its watches, or in its writes' answers."""
        for resource in ("nodes", "pods", "configmaps"):
            try:
                missed = server.changes(resource, self._watched.get(resource, 0))
            except StoreError:
                return False
            for change in missed:
                uid = change.after["metadata"]["uid"]
                if change.kind == "DELETED" or self.shown.get(uid, 0) < change.version:
                    return False
        return True

    def knows(self, server: Server) -> Known:
        """The state that a decision of now would rest on."""
        return Known(
            shown=dict(self.shown),
            nodes_at=self.nodes_at,
            obliged=self.obliged,
            quota=self.quota,
            current=self.current(server),
            version=server.store.version,
        )
