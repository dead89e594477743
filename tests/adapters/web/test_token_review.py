"""A token is reviewed, and then the account's access, with all that the server said of it."""

import pathlib

from gpustack.adapters.kube import KubeClient, TokenReviewer
from tests.fakes.kube_api import FakeKubeApi


def test_the_access_of_the_whole_account_is_reviewed(tmp_path: pathlib.Path) -> None:
    account = {
        "username": "system:serviceaccount:monitoring:prometheus",
        "uid": "5",
        "groups": ["system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
    }
    with FakeKubeApi() as api:
        api.tokens["secret"] = account
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        assert TokenReviewer(client, "/metrics").judge("secret") == 403
        api.rights.add((str(account["username"]), "get", "/metrics"))
        assert TokenReviewer(client, "/metrics").judge("secret") == 200
        (first, _), (access, _) = api.asked("POST", "/tokenreviews$"), api.asked("POST", "/subject")
    assert first.path == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert first.body == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "secret"},
    }
    assert access.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert access.body == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": account["username"],
            "uid": "5",
            "groups": account["groups"],
            "extra": account["extra"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


def test_nothing_is_asked_about_the_access_of_an_unknown_token(tmp_path: pathlib.Path) -> None:
    with FakeKubeApi() as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        assert TokenReviewer(client, "/metrics").judge("nonsense") == 401
        assert [each.path.rpartition("/")[2] for each in api.requests] == ["tokenreviews"]
