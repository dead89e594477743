"""The extender's own identity: the rights and policies of the role hold for it, and no others."""

import pathlib
from collections.abc import Iterable
from typing import Any, Final

import jinja2
import yaml

from gpustack.adapters.kube import KubeClient
from tests.ansible import rendering
from tests.control_plane.plane import ControlPlane
from tests.testbed import paths

ROLE: Final = paths.REPOSITORY / "roles" / "cluster_objects"
_ACCOUNTS: Final = "/api/v1/namespaces/kube-system/serviceaccounts"
_COLLECTIONS: Final = {
    "ServiceAccount": _ACCOUNTS,
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
}


def extender_kubeconfig(plane: ControlPlane) -> pathlib.Path:
    """Create the role's account and rights and return a kubeconfig with a token of that account."""
    return _kubeconfig(plane, rbac_objects(), "__cluster_objects_name")


def scheduler_kubeconfig(plane: ControlPlane) -> pathlib.Path:
    """Do the same for the account of a scheduler of our own."""
    objects = rbac_objects("scheduler_rbac")
    return _kubeconfig(plane, objects, "__cluster_objects_scheduler_name")


def _kubeconfig(
    plane: ControlPlane, objects: Iterable[dict[str, Any]], variable: str
) -> pathlib.Path:
    client = KubeClient.from_kubeconfig(plane.admin)
    for value in objects:
        if value["kind"] in _COLLECTIONS:
            client.post(_COLLECTIONS[value["kind"]], value)
    name = _variables()[variable]
    spec = {"expirationSeconds": 86_400}  # longer than any run
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    made = client.post(f"{_ACCOUNTS}/{name}/token", request)
    return plane.token_kubeconfig(name, made["status"]["token"])


def lay_policies(plane: ControlPlane, folder: pathlib.Path, **variables: Any) -> None:
    """Create the role's admission policies, and wait until the API server keeps to them.

    Args:
        plane: where.
        folder: an empty one, for the templates as Ansible renders them.
        variables: what differs from the role's defaults.
    """
    client = KubeClient.from_kubeconfig(plane.admin)
    for file in sorted(rendering.render(folder, **variables).glob("gpustack-*.yml")):
        for value in yaml.safe_load_all(file.read_text()):
            collection = "policies" if value["kind"].endswith("Policy") else "policybindings"
            client.post(f"{_POLICIES}{collection}", value)


_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmission"


def rbac_objects(name: str = "rbac", *, token_reviews: bool = False) -> list[dict[str, Any]]:
    """Return what a template of the role makes of the role's defaults.

    Args:
        name: of the template.
        token_reviews: whether the extender judges readers of metrics by their tokens.
    """
    template = (ROLE / "templates" / f"{name}.yml.j2").read_text()
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701
    environment.filters["bool"] = bool  # Ansible's own
    variables = {**_variables(), "cluster_objects_token_reviews": token_reviews}
    text = environment.from_string(template).render(variables)
    return [value for value in yaml.safe_load_all(text) if value]


def _variables() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("defaults", "vars"):
        found.update(yaml.safe_load((ROLE / name / "main.yml").read_text()))
    return found
