"""A cluster with one node on a real socket: cordons, disruption budgets and evictions."""

import collections.abc
import contextlib
import json
import pathlib
import subprocess
from typing import Any

import yaml

from tests.ansible import cluster_server
from tests.ansible.rendering import ansible

MARK = "tencent.com/gpustack-cordoned"
NODE = "/api/v1/nodes/gpu1"
_Answer = tuple[int, dict[str, Any]] | None


def pod(
    name: str,
    *,
    owner: str | None = "apps/v1 ReplicaSet",
    gpu: bool = True,
    phase: str = "Running",
    **metadata: Any,
) -> dict[str, Any]:
    """Return a pod on the node, with half a card or none; `owner` is VERSION and kind."""
    limits = {"tencent.com/vcuda-core": "50"} if gpu else {"cpu": "1"}
    owners = []
    if owner:
        version, kind = owner.split()
        owners = [
            {"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": True}
        ]
    return {
        "metadata": {
            "name": name, "namespace": "research", "uid": f"uid-{name}", "ownerReferences": owners,
            **metadata,
        },
        "spec": {"nodeName": "gpu1", "containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }  # fmt: skip


class Cluster:
    """The node's pods, and what was asked of the server.

    Attributes:
        pods: those on the node, by name.
        refusals: how often a pod's budget refuses, by the pod's name.
        tries: the pods whose eviction was asked for, in order.
        patches: of the node, in order, dry ones aside.
        conflicts: how often a pod changes while it is evicted, by the pod's name.
        returning: pods that are bound to the node again, anew, however often they are evicted.
        stuck: pods that an eviction doesn't end.
        before_patch: is called before the next change of the node, once.
    """

    def __init__(self, *pods: dict[str, Any], **node: Any) -> None:
        self.pods = {one["metadata"]["name"]: one for one in pods}
        self.refusals: dict[str, int] = {}
        self.tries: list[str] = []
        self.patches: list[dict[str, Any]] = []
        self.conflicts: dict[str, int] = {}
        self.returning: set[str] = set()
        self.stuck: set[str] = set()
        self.before_patch: collections.abc.Callable[[], None] | None = None
        metadata = {"name": "gpu1", "uid": "gpu1", "resourceVersion": "1", "annotations": {}}
        self.objects: cluster_server.Objects = {
            NODE: {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, **node}
        }

    @property
    def node(self) -> dict[str, Any]:
        """Return the node as it is now."""
        return self.objects[NODE]

    @property
    def cordoned(self) -> bool:
        """Return whether the node takes no pods."""
        return bool(self.node["spec"].get("unschedulable"))

    @property
    def marked(self) -> bool:
        """Return whether the node says that we cordoned it."""
        return MARK in self.node["metadata"]["annotations"]

    def cordon(self, *, ours: bool = False) -> None:
        """Cordon the node, as somebody else does or as an earlier run of ours."""
        self.node["spec"]["unschedulable"] = True
        self.node["metadata"]["resourceVersion"] += "1"
        if ours:
            self.node["metadata"]["annotations"][MARK] = "true"

    def touch(self) -> None:
        """Change the node as its kubelet does."""
        self.node["metadata"]["resourceVersion"] += "1"

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]
    ) -> _Answer:
        """Answer lists of pods, evictions, and changes of the node that come too late."""
        if path == "/api/v1/pods":
            assert query["fieldSelector"] == ["spec.nodeName=gpu1"]
            return 200, {"kind": "PodList", "apiVersion": "v1", "items": [*self.pods.values()]}
        if method == "GET" and path.startswith("/api/v1/namespaces/research/pods/"):
            found = self.pods.get(path.rsplit("/", maxsplit=1)[-1])
            return (404, {"kind": "Status", "code": 404}) if found is None else (200, found)
        if path.endswith("/eviction"):
            return self._evict(path.split("/")[-2], body)
        if path == NODE and method == "PATCH" and "dryRun" not in query:
            return self._patch(body)
        return None

    def _evict(self, name: str, body: dict[str, Any]) -> _Answer:
        self.tries.append(name)
        if name not in self.pods:
            return 404, {"kind": "Status", "code": 404, "message": f"pods {name} not found"}
        uid = self.pods[name]["metadata"]["uid"]
        assert body["deleteOptions"]["preconditions"]["uid"] == uid
        if self.conflicts.get(name, 0) > 0:
            self.conflicts[name] -= 1
            words = "the ResourceVersion in the precondition does not match"
            return 409, {"kind": "Status", "code": 409, "message": words}
        if self.refusals.get(name, 0) > 0:
            self.refusals[name] -= 1
            cause = "The disruption budget trainers needs 2 healthy pods and has 2 currently"
            return 429, {
                "kind": "Status", "code": 429,
                "message": "Cannot evict pod as it would violate the pod's disruption budget.",
                "details": {"causes": [{"reason": "DisruptionBudget", "message": cause}]},
            }  # fmt: skip
        if name not in self.stuck:
            gone = self.pods.pop(name)
            if name in self.returning:
                self.pods[name] = {**gone, "metadata": {**gone["metadata"], "uid": f"{uid}+"}}
        return 201, {"kind": "Status", "status": "Success"}

    def _patch(self, body: dict[str, Any]) -> _Answer:
        hook, self.before_patch = self.before_patch, None
        if hook is not None:
            hook()
        asked = body["metadata"].get("resourceVersion")
        if asked is not None and asked != self.node["metadata"]["resourceVersion"]:
            return 409, {"kind": "Status", "code": 409, "message": "the object has been modified"}
        self.patches.append(body)
        return None

    @contextlib.contextmanager
    def serving(self, folder: pathlib.Path) -> collections.abc.Iterator["Runner"]:
        """Serve on loopback; yields what runs the role against it."""
        with cluster_server.serving(folder, self.objects, answering=self.answer) as kubeconfig:
            yield Runner(folder, kubeconfig)


class Runner:
    """Runs the role for the host gpu1, with the kubeconfig of the host cp1."""

    def __init__(self, folder: pathlib.Path, kubeconfig: pathlib.Path) -> None:
        self._folder, self._kubeconfig = folder, kubeconfig

    def __call__(
        self, entry: str, *arguments: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run an entry point; `variables` lack the prefix of the role."""
        common = {
            "ansible_connection": "local",
            "node_maintenance_control_plane": "cp1",
            **{f"node_maintenance_{name}": value for name, value in variables.items()},
        }
        # of that host alone, as a variable of its group is
        own = {"cluster_objects_admin_kubeconfig": str(self._kubeconfig)}
        inventory = {"all": {"vars": common, "hosts": {"cp1": own, "gpu1": {}}}}
        (self._folder / "hosts.yml").write_text(json.dumps(inventory))
        role = {"import_role": {"name": "node_maintenance", "tasks_from": entry}}
        play = {"hosts": "gpu1", "gather_facts": False, "tasks": [role]}
        (self._folder / "play.yml").write_text(yaml.safe_dump([play]))
        return ansible(
            "ansible-playbook",
            f"--inventory={self._folder}/hosts.yml",
            f"--extra-vars={json.dumps({'__node_maintenance_pause_seconds': 0.5})}",
            *arguments,
            f"{self._folder}/play.yml",
        )
