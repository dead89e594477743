"""Extender and agent judge tokens at a real API server, with the rights that they have."""

import functools
from collections.abc import Iterator

import pytest

from gpustack.adapters.kube import MERGE_PATCH, KubeError, TokenReviewer
from tests.admission.site import Site
from tests.cluster.kubectl import wait_for
from tests.control_plane import identity

pytestmark = pytest.mark.testbed

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def reviewing(site: Site) -> Iterator[TokenReviewer]:
    """The extender with the rights of a site where tokens count."""
    extender = TokenReviewer(site.extender, "/metrics")
    with pytest.raises(KubeError, match="403"):
        extender.judge("nonsense")
    _set_rights(site, token_reviews=True)
    # The authorizer watches its own store.
    wait_for("the right to review tokens", lambda: _verdict(extender, "nonsense") == 401)
    yield extender
    _set_rights(site, token_reviews=False)


def test_a_token_reads_once_its_account_is_bound_to_system_monitoring(
    site: Site, reviewing: TokenReviewer
) -> None:
    site.admin.post(_ACCOUNTS, {"metadata": {"name": "prometheus"}})
    token = site.admin.post(f"{_ACCOUNTS}/prometheus/token", {"spec": {}})["status"]["token"]
    agent = TokenReviewer(site.node, "/metrics")
    assert [agent.judge("nonsense"), agent.judge(token), reviewing.judge(token)] == [401, 403, 403]
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "prometheus"},
        "roleRef": {"kind": "ClusterRole", "name": "system:monitoring", "apiGroup": group},
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
    }
    site.admin.post(f"{_RBAC}/clusterrolebindings", binding)
    for judge in (agent, reviewing):
        wait_for("the right to read", functools.partial(_reads, judge, token))


def _reads(judge: TokenReviewer, token: str) -> bool:
    return judge.judge(token) == 200


def _set_rights(site: Site, *, token_reviews: bool) -> None:
    objects = identity.rbac_objects(token_reviews=token_reviews)
    (role,) = (each for each in objects if each["kind"] == "ClusterRole")
    path = f"{_RBAC}/clusterroles/{role['metadata']['name']}"
    site.admin.patch(path, {"rules": role["rules"]}, content_type=MERGE_PATCH)


def _verdict(judge: TokenReviewer, token: str) -> int:
    try:
        return judge.judge(token)
    except KubeError as error:
        return error.status
