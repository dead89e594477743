"""The extender's own identity, with the rights that the role gives it and no other."""

import pathlib
from typing import Any, Final

import jinja2
import yaml

from gpustack.adapters.kube import KubeClient
from tests.bench import paths
from tests.control_plane.plane import ControlPlane

ROLE: Final = paths.REPOSITORY / "roles" / "cluster_objects"
_COLLECTIONS: Final = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
}


def extender_kubeconfig(plane: ControlPlane) -> pathlib.Path:
    """Create the role's RBAC objects and return a kubeconfig that they hold for.

    No controller issues tokens here, so the account comes with a certificate of its name.
    """
    client = KubeClient.from_kubeconfig(plane.admin)
    for value in rbac_objects():
        if value["kind"] in _COLLECTIONS:
            client.post(_COLLECTIONS[value["kind"]], value)
    account = f"system:serviceaccount:kube-system:{_variables()['__cluster_objects_name']}"
    return plane.kubeconfig(account, ("system:serviceaccounts",))


def rbac_objects() -> list[dict[str, Any]]:
    """Return what the role's template makes of the role's defaults."""
    template = (ROLE / "templates" / "rbac.yml.j2").read_text()
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701
    text = environment.from_string(template).render(_variables())
    return [value for value in yaml.safe_load_all(text) if value]


def _variables() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("defaults", "vars"):
        found.update(yaml.safe_load((ROLE / name / "main.yml").read_text()))
    return found
