"""kubectl with one kubeconfig, and waiting for what the API server says.

Waiting polls a predicate until a deadline: every wait names what it waited for and shows what it
saw last, because that is what a reader of a failed run needs.
"""

import dataclasses
import json
import pathlib
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.25


class KubectlError(Exception):
    """kubectl exited with an error; the text is its stderr."""


class WaitError(AssertionError):
    """A condition did not come true before its deadline."""


def wait_for(what: str, look: Callable[[], T], *, seconds: float = 60) -> T:
    """Call ``look`` until it returns something true; return that.

    Raises:
        WaitError: not within ``seconds``; the text says what was seen last.
    """
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise WaitError(f"waited {seconds:.0f} s for {what}; last saw {seen!r}")
        time.sleep(POLL_SECONDS)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """One cluster as one kubeconfig sees it."""

    binary: pathlib.Path
    kubeconfig: pathlib.Path

    def run(self, *arguments: str, stdin: str | None = None, seconds: float = 60) -> str:
        """Run kubectl and return its stdout.

        Raises:
            KubectlError: it exited with an error.
        """
        done = subprocess.run(
            [str(self.binary), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise KubectlError(done.stderr.strip() or f"exit status {done.returncode}")
        return done.stdout

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Create or update one object."""
        self.run("apply", "-f", "-", stdin=json.dumps(manifest))

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Create one object; fails where it exists."""
        self.run("create", "-f", "-", stdin=json.dumps(manifest))

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return ``kubectl get ... -o json`` as an object."""
        answer: dict[str, Any] = json.loads(self.run("get", *arguments, "-o", "json"))
        return answer

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the items of a list, in the API server's order."""
        items: list[dict[str, Any]] = self.get(*arguments)["items"]
        return items

    def execute(self, pod: str, *command: str, seconds: float = 60) -> str:
        """Run a command in the pod's first container and return its stdout."""
        return self.run("exec", pod, "--", *command, seconds=seconds)

    def delete(self, *arguments: str) -> None:
        """Delete as a user does, dependents first, and wait until all of it is gone."""
        self.run(
            "delete", *arguments, "--ignore-not-found", "--wait", "--cascade=foreground",
            seconds=120,
        )  # fmt: skip


def conditions(item: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each of the object's conditions, by its type."""
    return {each["type"]: each["status"] for each in item["status"]["conditions"]}


def annotations(item: Mapping[str, Any]) -> dict[str, str]:
    """Return the object's annotations."""
    return dict(item["metadata"].get("annotations") or {})


def is_running(pod: Mapping[str, Any]) -> bool:
    """Say whether every container of the pod runs now."""
    status = pod.get("status", {})
    containers = status.get("containerStatuses") or []
    return (
        status.get("phase") == "Running"
        and bool(containers)
        and all("running" in (container.get("state") or {}) for container in containers)
    )


def scheduling_message(pod: Mapping[str, Any]) -> str:
    """Return why the scheduler has not placed the pod, or an empty text."""
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""
