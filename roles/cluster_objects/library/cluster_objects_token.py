"""Gives an account's daemon on one host a token that ends, bound to a Secret of that host."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from kubernetes import config, dynamic
except ImportError:
    config = dynamic = None

DOCUMENTATION = r"""
module: cluster_objects_token
short_description: Give an account's daemon on one host a token that ends
description:
  - Makes an empty Secret for account and host, and asks a token by TokenRequest that is bound to
    it, so that deleting the Secret ends the host's tokens. kubernetes.core asks no TokenRequest.
  - A token that the host has stays where the API server accepts it, it is this account's and bound
    to this Secret, and a third of its time is left. C(token) is empty then, and in check mode.
  - C(problem) says why there is none.
options:
  kubeconfig: {type: path, required: true, description: Of an administrator.}
  namespace: {type: str, required: true, description: Of account and Secret.}
  account: {type: str, required: true, description: Name of the ServiceAccount.}
  host: {type: str, required: true, description: The host's name in the inventory.}
  seconds: {type: int, required: true, description: How long the token shall last.}
  present: {type: str, default: "", description: The token that the host has.}
  replace: {type: bool, default: false, description: End the host's tokens, and make another.}
"""

LABELS = {"app.kubernetes.io/name": "gpustack-token"}
_MOST_SLUG = 40  # characters of a host's name; with the account's, and the sum, a name has 253


def secret_name(account: str, host: str) -> str:
    """Return the name of the Secret of an account's tokens on a host.

    The sum tells hosts apart whose names are the same without what no Secret's name may have. After
    a point, because old clusters make Secrets ``ACCOUNT-token-SUFFIX`` themselves.
    """
    slug = re.sub("[^a-z0-9]+", "-", host.lower()).strip("-")[:_MOST_SLUG].rstrip("-")
    return f"{account}.{slug or 'host'}-{hashlib.sha256(host.encode()).hexdigest()[:8]}"


def lasts(token: str, secret: str, uid: str, now: float) -> bool:
    """Say whether a token is bound to this Secret, and a third of its time is left.

    files/tokens/claims.py of the role gpustack_extender calls a token late by the same rule.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        bound, begins, ends = claims["kubernetes.io"]["secret"], claims["iat"], claims["exp"]
        fits = (bound["name"], bound["uid"]) == (secret, uid)
        return bool(fits and ends - now >= (ends - begins) / 3)
    except (ValueError, TypeError, LookupError, RecursionError):
        return False


class Cluster:
    """The API server, for one account on one host."""

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params
        client = config.new_client_from_config(config_file=params["kubeconfig"])
        # Without discovery of the kinds: the paths are known.
        self._client = dynamic.DynamicClient(client, discoverer=lambda *_: None)
        self._place = f"/api/v1/namespaces/{params['namespace']}"
        self.secret = secret_name(params["account"], params["host"])

    def uid(self) -> str:
        """Return the Secret's; empty where there is none."""
        try:
            found = self._call("get", f"{self._place}/secrets/{self.secret}")
        except dynamic.exceptions.NotFoundError:
            return ""
        return str(found["metadata"]["uid"])

    def delete(self) -> None:
        """Delete the Secret, with which the host's tokens end."""
        self._call("delete", f"{self._place}/secrets/{self.secret}")

    def create(self) -> str:
        """Make the Secret; returns its UID."""
        note = {"gpustack/host": self._params["host"]}
        metadata = {"name": self.secret, "labels": LABELS, "annotations": note}
        body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
        return str(self._call("post", f"{self._place}/secrets", body)["metadata"]["uid"])

    def accepts(self, token: str) -> bool:
        """Say whether the API server takes a token as this account's."""
        body = {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token},
        }  # fmt: skip
        said = self._call("post", "/apis/authentication.k8s.io/v1/tokenreviews", body)["status"]
        account = f"system:serviceaccount:{self._params['namespace']}:{self._params['account']}"
        return bool(said.get("authenticated") and said["user"]["username"] == account)

    def token(self, uid: str) -> str:
        """Ask for a token that is bound to the Secret."""
        bound = {"kind": "Secret", "apiVersion": "v1", "name": self.secret, "uid": uid}
        body = {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": self._params["seconds"], "boundObjectRef": bound},
        }  # fmt: skip
        path = f"{self._place}/serviceaccounts/{self._params['account']}/token"
        return str(self._call("post", path, body)["status"]["token"])

    def _call(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._client.request(verb, path, body=body, serialize=False)
        return json.loads(answer.data)


def give(cluster: Cluster, params: dict[str, Any], *, check: bool) -> tuple[bool, str]:
    """Return whether the host needs another token, and that token; none where it only looks."""
    uid, present = cluster.uid(), params["present"].strip()
    if uid and not params["replace"]:
        kept = lasts(present, cluster.secret, uid, time.time()) and cluster.accepts(present)
        if kept:
            return False, ""
    if check:
        return True, ""
    if uid and params["replace"]:
        cluster.delete()
        uid = ""
    return True, cluster.token(uid or cluster.create())


def main() -> None:
    """Run as Ansible's module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            **dict.fromkeys(("namespace", "account", "host"), text),
            "seconds": {"type": "int", "required": True},
            "present": {"type": "str", "default": "", "no_log": True},
            "replace": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if config is None:
        module.fail_json(msg=missing_required_lib("kubernetes"))
    params = module.params
    try:
        changed, token = give(Cluster(params), params, check=module.check_mode)
    except Exception as error:  # of the client: many kinds, and each says why
        # No failure: the task that hides the token would hide its words, too.
        said = f"{params['account']} on {params['host']}: {type(error).__name__}: {error}"
        module.exit_json(changed=False, token="", problem=said)
    module.exit_json(changed=changed, token=token, problem="")


if __name__ == "__main__":
    main()
