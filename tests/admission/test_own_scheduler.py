"""A site with a scheduler of our own: its account, and pods that name another scheduler."""

import pathlib
from typing import Any, Final

import pytest

from gpustack.adapters.kube import KubeClient, KubeError
from tests.admission.site import PLAIN, PODS, pod, refusal
from tests.admission.test_upgrade import play
from tests.cluster.kubectl import wait_for
from tests.control_plane import plane

pytestmark = pytest.mark.testbed

OWN: Final = {"kube_scheduler_manager": "own"}
LABELS: Final = {"app.kubernetes.io/name": "gpustack-token"}
_CORE: Final = "/api/v1/namespaces/kube-system"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LISTS: Final = (
    f"{_CORE}/serviceaccounts",
    f"{_CORE}/secrets",
    f"{_RBAC}/clusterroles",
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/roles",
    f"{_RBAC}/rolebindings",
    _LEASE,
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
)


def ours(admin: KubeClient) -> list[str]:
    """Return the kinds and names of the objects that we have laid."""
    return sorted(
        f"{path.rpartition('/')[2]}/{each['metadata']['name']}"
        for path in LISTS
        for each in admin.get(path)["items"]
        if "gpustack" in each["metadata"]["name"]
    )


@pytest.mark.nightly
def test_its_account_and_its_name_come_and_go(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir()
    with plane.start(folder) as control:
        admin = KubeClient.from_kubeconfig(control.admin)
        # what 0.1.0 and a host leave; no controller fills the first here
        endless = {"type": "Opaque", "metadata": {"name": "gpustack-extender"}}
        bound = {"metadata": {"name": "gpustack-scheduler.a", "labels": LABELS}}
        for each in (endless, bound):
            admin.post(f"{_CORE}/secrets", each)
        play(tmp_path, control.admin, "main", **OWN)
        assert play(tmp_path, control.admin, "main", **OWN) == "0"
        laid = ours(admin)
        assert "rolebindings/gpustack-scheduler" in laid
        assert "clusterrolebindings/gpustack-scheduler:volume-scheduler" in laid

        def refused(**fields: Any) -> str:
            return refusal(lambda: admin.post(f"{PODS}?dryRun=All", pod(**fields)))

        said = wait_for("the policy to hold", lambda: refused(schedulerName="nobody"), seconds=30)
        assert "spec.schedulerName: nobody" in said
        assert "must name gpustack" in said
        assert refused(schedulerName="gpustack") == ""
        # an account that may place pods asks no scheduler
        assert "must be scheduled" in refused(schedulerName="nobody", nodeName="gpu1")
        admin.post(f"{PODS}?dryRun=All", pod(PLAIN))
        account = KubeClient.from_kubeconfig(
            control.kubeconfig("system:serviceaccount:kube-system:gpustack-scheduler")
        )
        lease = {"metadata": {"name": "gpustack-scheduler"}, "spec": {"holderIdentity": "test"}}
        account.post(_LEASE, lease)
        admin.post(_LEASE, {**lease, "metadata": {"name": "kube-scheduler"}})
        # the cluster's own has rights to that one by its role, which is ours, too
        account.get(f"{_LEASE}/kube-scheduler")
        with pytest.raises(KubeError, match="403"):
            account.get(f"{_CORE}/secrets")
        play(tmp_path, control.admin, "uninstall", **OWN)
        assert ours(admin) == []
        assert play(tmp_path, control.admin, "uninstall", **OWN) == "0"
