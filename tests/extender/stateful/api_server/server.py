"""An API server that is a plain object: no sockets, no threads, no time but the test's.

Its rules are those of the fake on sockets (``tests/fakes``); it adds a plan: every call is a point
for an event (``pool``). Watches don't run: they show the changes that the test lets through, and
end.
"""

import dataclasses
import re
from collections.abc import Callable

from tests.fakes import kube_rules
from tests.fakes.kube_store import Change, KubeObject, Store, StoreError

_PATH = re.compile(
    r"^/(?:api/v1|apis/policy/v1)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?$"
)
Event = tuple[str, Callable[[], None]]  # an event at a call, and the others' action meanwhile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to the server."""

    method: str
    path: str
    query: dict[str, str]
    body: KubeObject
    kind: str  # of the patch

    @property
    def decides(self) -> bool:
        """Whether the request writes a pod's cards."""
        return any("/predicate-" in key and value is not None for key, value in self._written)

    @property
    def clears(self) -> bool:
        """Whether the request removes forged cards, before the decision itself."""
        written = self._written
        return bool(written) and all(value is None for _, value in written)

    @property
    def _written(self) -> list[tuple[str, str | None]]:
        metadata = self.body.get("metadata") or {}
        return list((metadata.get("annotations") or {}).items())

    @property
    def uid(self) -> str:
        """The UID of the request's object; empty where any object of the name will do."""
        return str((self.body.get("metadata") or {}).get("uid") or "")

    @property
    def named(self) -> tuple[str, str]:
        """Namespace and name of the request's object; empty without one."""
        found = self._target
        return found["namespace"] or "", found["name"] or ""

    @property
    def resource(self) -> str:
        """The resource of the request's object."""
        return self._target["resource"]

    @property
    def sub(self) -> str:
        """The subresource, empty for the object itself."""
        return self._target["sub"] or ""

    @property
    def _target(self) -> re.Match[str]:
        found = _PATH.match(self.path)
        assert found is not None, self.path
        return found


class Clock:
    """The cluster's true time; each process has a clock that may differ."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._readings = 0

    def read_ns(self) -> int:
        """Nanoseconds; as on real machines, no two readings are the same."""
        self._readings += 1
        return int(self.seconds * 1e9) + self._readings


class Objects(Store):
    """The objects, and a view of them without a copy."""

    def seen(self, resource: str) -> list[KubeObject]:
        """Return all objects of a resource, for reading only."""
        found = ((key, value) for key, value in self._objects.items() if key[0] == resource)
        return [value for _, value in sorted(found, key=lambda each: each[0])]


class Server:
    """The objects, and the plan of the events at later calls."""

    def __init__(self) -> None:
        self.store = Objects()
        self.clock = Clock()
        # Calls to let pass first, whether only writes count, the event; the first entry counts.
        self.plan: list[tuple[int, bool, str, Callable[[], None]]] = []
        self.late: list[Callable[[], None]] = []

    def planned(self, call: Call) -> Event:
        """The event of this call."""
        if not self.plan:
            return "", _nothing
        left, writes, what, act = self.plan[0]
        if writes and call.method == "GET":
            return "", _nothing
        if left:
            self.plan[0] = left - 1, writes, what, act
            return "", _nothing
        del self.plan[0]
        return what, act

    def execute(self, call: Call) -> tuple[int, KubeObject]:
        """Carry a request out."""
        try:
            return self._execute(call)
        except StoreError as error:
            status = {"kind": "Status", "metadata": {}, "code": error.status}
            return error.status, {**status, "reason": error.reason, "message": error.message}

    def _execute(self, call: Call) -> tuple[int, KubeObject]:
        namespace, name = call.named
        key = call.resource, namespace, name
        if call.method == "GET" and name:
            return 200, self.store.get(key)
        if call.method == "GET":
            return 200, self._list(call, namespace)
        if call.method == "PATCH":
            return 200, self.store.update(
                key,
                lambda old: kube_rules.written(call.resource, call.sub, old, call.body, call.kind),
            )
        assert (call.method, call.sub) == ("POST", "binding"), call
        self.store.update(key, lambda value: kube_rules.bound(value, call.body))
        return 201, {"kind": "Status", "status": "Success"}

    def _list(self, call: Call, namespace: str) -> KubeObject:
        version, items = self.store.list(call.resource, namespace)
        selectors = call.query.get("fieldSelector", ""), call.query.get("labelSelector", "")
        items = [each for each in items if kube_rules.matches(each, *selectors)]
        return {"metadata": {"resourceVersion": str(version)}, "items": items}

    def changes(self, resource: str, version: int) -> list[Change]:
        """The changes that a watch from a version has to show.

        Raises:
            StoreError: 410, the version is too old.
        """
        if version < self.store.oldest:
            raise StoreError(410, "Expired", "too old resource version")
        return list(self.store.changes_after(version, resource, ""))


def _nothing() -> None:
    """The event of most calls."""
