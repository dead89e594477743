"""A host's tokens on a real API server: the first one, the next ones, and what a thief may ask."""

import collections.abc
import pathlib
from typing import Any, Final

import pytest

from gpustack.adapters.kube import KubeClient, KubeError
from tests.admission.conftest import guarded
from tests.admission.site import RENEWAL, node, refusal
from tests.ansible import plugins
from tests.ansible.credentials.host_tokens import ACCOUNT, HostTokens
from tests.cluster.kubectl import wait_for
from tests.control_plane import identity, plane

pytestmark = pytest.mark.testbed

_SECRETS: Final = "/api/v1/namespaces/kube-system/secrets"
_HOURS: Final = 72
_DAY: Final = 86_400
tokens = plugins.load("roles/cluster_objects/library/cluster_objects_token.py")


class Lane:
    """A control plane with the role's rights and policies, and the module that gives tokens."""

    def __init__(self, control: plane.ControlPlane, folder: pathlib.Path) -> None:
        self.control, self.folder = control, folder
        self.admin = KubeClient.from_kubeconfig(control.admin)
        for name in ("gpu1", "gpu2"):
            self.admin.post("/api/v1/nodes", node(name))
        guarded(control, folder / "rendered")
        identity.scheduler_kubeconfig(control)

    def give(self, host: str, present: str = "", **changes: Any) -> tuple[bool, str]:
        """Do what the role does for a host that has this token."""
        params = {
            "kubeconfig": str(self.control.admin), "namespace": "kube-system",
            "account": ACCOUNT, "host": host, "seconds": _HOURS * 3600, "present": present,
            "replace": False, **changes,
        }  # fmt: skip
        given: tuple[bool, str] = tokens.give(tokens.Cluster(params), params, check=False)
        return given

    def client(self, token: str, user: str = "thief") -> KubeClient:
        return KubeClient.from_kubeconfig(self.control.token_kubeconfig(user, token))

    def bound(self, host: str, **changes: str) -> dict[str, Any]:
        """Return a request for a token that is bound to a host's Secret."""
        name = tokens.secret_name(ACCOUNT, host)
        uid = self.admin.get(f"{_SECRETS}/{name}")["metadata"]["uid"]
        reference = {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": uid, **changes}
        return {"expirationSeconds": _HOURS * 3600, "boundObjectRef": reference}


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Lane]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "plane").mkdir()
    (folder / "rendered").mkdir()
    with plane.start(folder / "plane") as control:
        yield Lane(control, folder)


def refused(client: KubeClient, spec: dict[str, Any], path: str = RENEWAL) -> str:
    return refusal(lambda: client.post(path, {"spec": spec}))


def test_a_host_keeps_its_token_and_renews_it_by_itself(lane: Lane, tmp_path: pathlib.Path) -> None:
    changed, token = lane.give("cp1")
    assert changed
    assert lane.give("cp1", token) == (False, "")
    assert lane.give("cp1", replace=True, present=token)[0]
    wait_for("the first token to end", lambda: _status(lane.client(token)) == 401, seconds=30)
    changed, token = lane.give("cp1", token)
    assert changed, "a token of a Secret that is gone"
    (tmp_path / "tokens").mkdir()
    authority = lane.control.authority.pair.certificate.decode()
    host = HostTokens(folder=tmp_path / "tokens", server=lane.control.server, authority=authority)
    # one that lasts an hour less than it might is due at once, as if a third were used
    host.file.write_text(lane.give("cp1", seconds=2 * _DAY + _HOURS * 3600, replace=True)[1])
    before = host.file.read_text()
    done = host.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert host.file.read_text() != before
    assert lane.give("cp1", host.file.read_text()) == (False, "")
    assert _status(lane.client(host.file.read_text())) == 200


def test_another_hosts_token_is_not_this_hosts(lane: Lane) -> None:
    _, token = lane.give("cp-a")
    assert lane.give("cp-b", token)[0]
    assert _status(lane.client(token)) == 200


def test_a_thief_gets_no_token_that_outlives_its_host(lane: Lane) -> None:
    client = lane.client(lane.give("stolen")[1])
    spec = lane.bound("stolen")
    assert refused(client, spec) == ""
    lane.give("cp2")
    name = tokens.secret_name(ACCOUNT, "cp2")
    cases: dict[str, dict[str, Any]] = {
        "bound to nothing": {"expirationSeconds": 600},
        "for a week": {**spec, "expirationSeconds": 7 * _DAY},
        "to another host's Secret without its UID": lane.bound("cp2", uid=""),
        "to another Secret": lane.bound("stolen", name="anything", uid="x"),
        "to a pod": lane.bound("stolen", kind="Pod"),
    }
    for what, asked in cases.items():
        said = refused(client, asked)
        assert "ValidatingAdmissionPolicy 'gpustack-tokens'" in said, (what, said)
    uid = lane.bound("cp2")["boundObjectRef"]["uid"]
    said = refused(client, lane.bound("stolen", name=name))
    assert "409" in said or "UID" in said
    assert uid not in said, "the server tells the UID that the thief would need"
    scheduler = RENEWAL.replace("gpustack-extender", "gpustack-scheduler")
    assert "cannot create resource" in refused(client, spec, scheduler)
    # an administrator may ask what it likes
    assert refused(lane.admin, {"expirationSeconds": 7 * _DAY}) == ""


def test_the_answer_of_a_server_with_a_shorter_limit_is_used(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plane").mkdir()
    with plane.start(tmp_path / "plane", "--service-account-max-token-expiration=1h") as control:
        identity.extender_kubeconfig(control)
        params = {
            "kubeconfig": str(control.admin), "namespace": "kube-system", "account": ACCOUNT,
            "host": "cp1", "seconds": _HOURS * 3600, "present": "", "replace": False,
        }  # fmt: skip
        cluster = tokens.Cluster(params)
        _, token = tokens.give(cluster, params, check=False)
        assert tokens.give(cluster, {**params, "present": token}, check=False) == (False, "")
        (tmp_path / "tokens").mkdir()
        authority = control.authority.pair.certificate.decode()
        host = HostTokens(folder=tmp_path / "tokens", server=control.server, authority=authority)
        host.file.write_text(token)
        assert host.run().returncode == 0
        assert host.file.read_text() == token, "it isn't due: two thirds of an hour are left"


def _status(client: KubeClient) -> int:
    try:
        client.get("/api/v1/nodes")
    except KubeError as error:
        return error.status
    return 200
