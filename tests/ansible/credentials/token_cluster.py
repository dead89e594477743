"""An API server that answers TokenRequests and TokenReviews, and keeps Secrets."""

import dataclasses
import itertools
from typing import Any

from tests.ansible import cluster_server
from tests.ansible.credentials.host_tokens import ACCOUNT, token

SECRETS = "/api/v1/namespaces/kube-system/secrets"
REQUESTS = f"/api/v1/namespaces/kube-system/serviceaccounts/{ACCOUNT}/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
USER = f"system:serviceaccount:kube-system:{ACCOUNT}"


@dataclasses.dataclass(slots=True)
class TokenCluster:
    """The Secrets, and what was asked.

    Attributes:
        objects: the Secrets by path.
        user: whose tokens are good; empty for nobody's.
        status: of the answers to TokenRequests.
        asked: methods and paths of changes.
        given: the tokens that were given.
    """

    objects: cluster_server.Objects = dataclasses.field(default_factory=dict)
    user: str = USER
    status: int = 201
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    given: list[str] = dataclasses.field(default_factory=list)
    _uids: Any = dataclasses.field(default_factory=lambda: itertools.count(1))

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]] | None:
        """Answer in a server's place."""
        if path == REVIEWS:
            said = {"authenticated": bool(self.user), "user": {"username": self.user}}
            return 201, {"status": said}
        if method != "POST":
            return None
        self.asked.append((method, path))
        if path == REQUESTS:
            if self.status != 201:
                return self.status, {"kind": "Status", "message": "no TokenRequests here"}
            bound = body["spec"]["boundObjectRef"]
            secret = {"name": bound["name"], "uid": bound["uid"]}
            hours = body["spec"]["expirationSeconds"] / 3600
            self.given.append(token(hours, hours, secret=secret))
            return 201, {"status": {"token": self.given[-1]}}
        assert path == SECRETS
        made = {**body, "metadata": {**body["metadata"], "uid": f"uid-{next(self._uids)}"}}
        self.objects[f"{SECRETS}/{body['metadata']['name']}"] = made
        return 201, made
