"""Every account, call and field against a real API server: the table of docs/security.md."""

import collections.abc
import copy
import json
import re
from typing import Any, Final

import pytest

from gpustack.adapters.kube import KubeClient, KubeError
from tests.admission import rights
from tests.admission.conftest import guarded
from tests.admission.site import MIRROR, PODS, Json, Site, bind, node, pod
from tests.control_plane import plane

pytestmark = pytest.mark.testbed

_QUOTA: Final = "/api/v1/namespaces/kube-system/configmaps"
_POLICY: Final = re.compile(r"ValidatingAdmissionPolicy 'gpustack-([a-z-]+)'")
_TRUSTED: Final = "system:serviceaccount:kube-system:gpu-admission"
# what `edit` has by itself: the controller that puts the parts together doesn't run here
_EDITS: Final = "system:aggregate-to-edit"
_RBAC: Final = "rbac.authorization.k8s.io"
_TRIED: Final = "?dryRun=All"  # judged as a call is, and nothing is kept


class Stage:
    """The objects that the calls are about, and the accounts that make them."""

    def __init__(self, site: Site, control: plane.ControlPlane) -> None:
        self.admin = site.admin
        self.clients: dict[str, KubeClient] = {
            "tenant": KubeClient.from_kubeconfig(control.kubeconfig("tenant")),
            "extender": site.extender,
            "own node": site.node,
            "other node": site.other,
            "placer": site.placer,
            "trusted": KubeClient.from_kubeconfig(
                control.kubeconfig(_TRUSTED, ("system:masters",))
            ),
            "administrator": site.admin,
        }
        binding = {
            "metadata": {"name": "tenant"},
            "roleRef": {"kind": "ClusterRole", "name": _EDITS, "apiGroup": _RBAC},
            "subjects": [{"kind": "User", "name": "tenant", "apiGroup": _RBAC}],
        }
        self.admin.post(f"/apis/{_RBAC}/v1/namespaces/default/rolebindings", binding)
        self.quota = {"metadata": {"name": "gpuquota"}, "data": {"gpu_quota": "{}"}}
        self.admin.post(_QUOTA, self.quota)
        waiting, bound = site.pod(), site.pod()
        assert bind(site.admin, bound) == ""
        uid = self.admin.get("/api/v1/nodes/gpu1")["metadata"]["uid"]
        self.owner = {"apiVersion": "v1", "kind": "Node", "name": "gpu1", "uid": uid} | {
            "controller": True
        }
        self.paths = {
            "pods, waiting": waiting,
            "pods, bound": bound,
            "pods/status, waiting": f"{waiting}/status",
            "pods/status, bound": f"{bound}/status",
            "nodes": "/api/v1/nodes/gpu1",
            "nodes/status": "/api/v1/nodes/gpu1/status",
            "configmaps, quota": f"{_QUOTA}/gpuquota",
        }

    def make(self, call: rights.Call, account: str) -> str:
        """Make a call; return its verdict."""
        client = self.clients[account]
        try:
            after = self._send(client, call)
        except KubeError as error:
            policy = _POLICY.search(str(error))
            if policy is not None:
                return policy[1]
            if error.status == 409:  # there is one already: the call was judged before
                return "yes"
            return "rights" if error.status == 403 else "invalid"
        changed = call.target.startswith(("pods/binding", "bindings")) or _has(after, call.change)
        return "yes" if changed else "kept"

    def _send(self, client: KubeClient, call: rights.Call) -> Any:
        if call.verb == "create":
            path, body = self._new(call)
            body = _merged(body, call.change)
            if MIRROR in body["metadata"].get("annotations", {}):
                body["metadata"]["ownerReferences"] = [self.owner]
            return client.post(path + _TRIED, body)
        path = self.paths[call.target]
        if call.verb == "patch":
            body = call.change or {"data": {"gpu_quota": "{ }"}}
            return client.patch(path + _TRIED, body)
        body = _merged(self.admin.get(path.removesuffix("/status")), call.change)
        return json.loads(client._request("PUT", path + _TRIED, body=body))

    def _new(self, call: rights.Call) -> tuple[str, Json]:
        waiting = self.paths["pods, waiting"]
        name = waiting.rpartition("/")[2]
        binding = {
            "metadata": {"name": name, "namespace": "default"},
            "target": {"kind": "Node", "name": "gpu1"},
        }
        event = {
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": "default"},
        }
        return {
            "pods": (PODS, pod()),
            "pods/binding": (f"{waiting}/binding", binding),
            "bindings": ("/api/v1/namespaces/default/bindings", binding),
            "nodes": ("/api/v1/nodes", node("gpu1")),
            "events": ("/api/v1/namespaces/default/events", event),
            "configmaps, quota": (_QUOTA, {**self.quota, "metadata": {"name": "new"}}),
        }[call.target]


def _merged(value: Json, change: Json) -> Json:
    """Return an object with a change laid over it."""
    merged = copy.copy(value)
    for key, each in change.items():
        below = merged.get(key)
        merged[key] = (
            _merged(below or {}, each) if isinstance(each, dict) and below != each else each
        )
    return merged


def _has(value: Any, change: Any) -> bool:
    """Say whether an object has what a change would give it."""
    if isinstance(change, dict):
        return isinstance(value, dict) and all(
            _has(value.get(key), each) for key, each in change.items()
        )
    if isinstance(change, list):
        return isinstance(value, list) and all(
            any(_has(one, each) for one in value) for each in change
        )
    return bool(value == change)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Stage]:
    """Run a control plane as kubeadm does: a node may write to itself and its pods only."""
    folder = tmp_path_factory.mktemp("rights")
    with plane.start(folder, "--enable-admission-plugins=NodeRestriction") as control:
        admin = KubeClient.from_kubeconfig(control.admin)
        for name in ("gpu1", "gpu2"):
            admin.post("/api/v1/nodes", node(name, "training"))
        rendered = tmp_path_factory.mktemp("rendered")
        site = guarded(control, rendered, cluster_objects_trusted_accounts=[_TRUSTED])
        yield Stage(site, control)


@pytest.mark.parametrize("account", rights.ACCOUNTS)
def test_each_account_writes_what_the_table_says(stage: Stage, account: str) -> None:
    found = {call: stage.make(call, account) for call in rights.CALLS}
    for call, verdict in found.items():
        print(f"{account:14} {call.verb:7} {call.target:21} {call.field:40} {verdict}")
    wrong = {
        f"{call.verb} {call.target}: {call.field}": (verdict, call.verdicts[account])
        for call, verdict in found.items()
        if verdict not in call.verdicts[account].split(", ")
    }
    assert wrong == {}
