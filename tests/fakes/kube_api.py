"""A Kubernetes API server in this process: real HTTP, real rules, no authorization.

    with FakeKubeApi() as api:
        api.create("pods", pod)                      # as a user would
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        api.faults.fail("PATCH", r"/pods/", status=500, times=1)

It serves list (pages, field and label selectors), watch (bookmarks, 410), get, create, patch, put,
delete, ``pods/NAME/status`` and ``pods/NAME/binding``, for any resource of any group,
``pods/NAME/log`` from the pod's field ``log``, and it reviews ``tokens`` and ``rights``.
``requests`` has every request. Faults and delays are in ``faults``; ``hold_watches`` keeps changes
from watchers until ``release_watches``, so that a test of lag doesn't sleep, and ``lag_seconds``
delays each change by so much.
"""

import json
import re
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.fakes import kube_rules
from tests.fakes.kube_faults import Faults
from tests.fakes.kube_http import Handler, Request, Server
from tests.fakes.kube_store import Key, KubeObject, Store
from tests.fakes.sockets import fall_silent

_CLUSTER_SCOPED = {
    "nodes", "namespaces", "persistentvolumes",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings",
}  # fmt: skip


class FakeKubeApi:
    """The server; ``store`` holds what it serves."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.store = Store()
        self.faults = Faults()
        self.requests: list[Request] = []
        self.stopping = False
        self.held = False  # guarded by store.changed
        self.lag_seconds = 0.0
        self.tokens: dict[str, KubeObject] = {}  # who shows them, as a TokenReview says it
        self.rights: set[tuple[str, str, str]] = set()  # username, verb, path
        self.bookmarked = 0  # the version of the last send_bookmarks; guarded by store.changed
        self._tls = tls
        self._server = Server(("127.0.0.1", 0), Handler, api=self, tls=tls)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> "FakeKubeApi":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port and every connection."""
        with self.store.changed:
            self.stopping = True
            self.store.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    def write_kubeconfig(
        self, path: Path, user: dict[str, Any] | None = None, **cluster: Any
    ) -> Path:
        """Write a kubeconfig whose current context is this server; returns ``path``.

        In JSON, which is YAML too: hundreds of tests write and read one.
        """
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url, **cluster}}],
            "users": [{"name": "fake", "user": user or {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }
        path.write_text(json.dumps(config))
        return path

    # Changes by a user, a controller or the kubelet; they reach watchers as usual.

    def create(self, resource: str, value: KubeObject) -> KubeObject:
        return self.store.create(self.key(resource, value), value)

    def get(self, resource: str, name: str, namespace: str = "default") -> KubeObject:
        return self.store.get(self._named(resource, name, namespace))

    def delete(self, resource: str, name: str, namespace: str = "default") -> None:
        self.store.delete(self._named(resource, name, namespace))

    def edit(
        self, resource: str, name: str, patch: KubeObject, namespace: str = "default"
    ) -> KubeObject:
        """Merge ``patch`` into an object, with no precondition."""
        return self.store.update(
            self._named(resource, name, namespace),
            lambda value: kube_rules.patched(value, patch, "application/merge-patch+json"),
        )

    def events(self) -> list[KubeObject]:
        """The core Events created so far, oldest first."""
        return sorted(
            self.store.list("events")[1], key=lambda e: int(e["metadata"]["resourceVersion"])
        )

    def asked(self, method: str, pattern: str) -> list[Request]:
        """The requests so far with this method whose path matches ``pattern`` somewhere."""
        return [r for r in list(self.requests) if r.method == method and re.search(pattern, r.path)]

    # Events of the network and of etcd.

    def hold_watches(self) -> None:
        """Keep later changes from watchers until ``release_watches``."""
        with self.store.changed:
            self.held = True

    def release_watches(self) -> None:
        with self.store.changed:
            self.held = False
            self.store.changed.notify_all()

    def send_bookmarks(self) -> None:
        """Tell the newest version to each watcher that asked for bookmarks and doesn't know it.

        A watcher that is just opening its watch counts: its request is noted before it listens.
        """
        with self.store.changed:
            self.bookmarked = self.store.version
            self.store.changed.notify_all()

    def drop_connections(self) -> None:
        """Break every open connection, as a restarted server does; new ones are accepted."""
        self._server.drop_connections()

    def fall_silent(self) -> None:
        """Cut every open connection off without telling either side; new ones are accepted."""
        for connection in self._server.connections():
            fall_silent(connection)

    @staticmethod
    def key(resource: str, value: KubeObject) -> Key:
        metadata = value["metadata"]
        namespace = "" if resource in _CLUSTER_SCOPED else metadata.get("namespace", "default")
        return resource, namespace, metadata["name"]

    @staticmethod
    def _named(resource: str, name: str, namespace: str) -> Key:
        return resource, "" if resource in _CLUSTER_SCOPED else namespace, name


__all__ = ["FakeKubeApi", "Request"]
