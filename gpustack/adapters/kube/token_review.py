"""Asks the API server who shows a bearer token, and whether that account may get a path.

As kubelets and API servers that delegate do: a TokenReview, and a SubjectAccessReview of what it
says. https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication
"""

import http
from typing import Any, Final

from gpustack.adapters.kube.client import KubeClient

_AUTHENTICATION: Final = "authentication.k8s.io/v1"
_AUTHORIZATION: Final = "authorization.k8s.io/v1"
_SECONDS: Final = 4.0  # of each question: both fit into the time that Prometheus waits


class TokenReviewer:
    """Judges the tokens of those who get one path."""

    def __init__(self, client: KubeClient, path: str) -> None:
        self._client, self._path = client, path

    def judge(self, token: str) -> http.HTTPStatus:
        """Return 200 for a token whose account may get the path, or else 401 or 403.

        Raises:
            KubeError: the API server refuses the question.
            KubeUnavailable: it doesn't answer in time.
        """
        user = self._user(token)
        if user is None:
            return http.HTTPStatus.UNAUTHORIZED
        return http.HTTPStatus.OK if self._may_get(user) else http.HTTPStatus.FORBIDDEN

    def _user(self, token: str) -> dict[str, Any] | None:
        review = {
            "apiVersion": _AUTHENTICATION,
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = self._status(f"/apis/{_AUTHENTICATION}/tokenreviews", review)
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            return None
        return user if user.get("username") else None

    def _may_get(self, user: dict[str, Any]) -> bool:
        # All that the API server said of the account, in the fields that it takes it in.
        subject = {"user": user["username"]}
        subject |= {name: user[name] for name in ("uid", "groups", "extra") if user.get(name)}
        review = {
            "apiVersion": _AUTHORIZATION,
            "kind": "SubjectAccessReview",
            "spec": {**subject, "nonResourceAttributes": {"path": self._path, "verb": "get"}},
        }
        status = self._status(f"/apis/{_AUTHORIZATION}/subjectaccessreviews", review)
        return status.get("allowed") is True and status.get("denied") is not True

    def _status(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        status = self._client.post(path, review, timeout_seconds=_SECONDS).get("status")
        return status if isinstance(status, dict) else {}
