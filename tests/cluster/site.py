"""A testbed with the product rolled out on it: what demo and e2e start from."""

import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Any

from tests.cluster import kubectl, rollout
from tests.testbed import description

# what the product may leave on a host; nothing of it may exist before the first real run
PRODUCT_PATHS = (
    "/etc/gpustack",
    "/opt/gpustack",
    "/var/lib/gpustack",
    "/var/lib/gpustack-driver-packages",
    "/var/lib/gpustack-extender",
    "/etc/systemd/system/gpustack-agent.service",
    "/etc/systemd/system/gpustack-extender.service",
    "/etc/systemd/system/gpustack-device.service",
    "/etc/systemd/system/gpustack-mount.service",
    "/opt/gpustack-scheduler",
    "/etc/systemd/system/gpustack-scheduler.service",
)


@dataclasses.dataclass(slots=True, kw_only=True)
class Site:
    """One testbed, by its name."""

    name: str
    state: pathlib.Path
    kubectl: kubectl.Kubectl

    def playbook(self, playbook: str, *extra: str) -> dict[str, rollout.Recap]:
        """Run one of the product's playbooks on this site."""
        path = "site.yml" if playbook == "site" else f"playbooks/{playbook}.yml"
        return rollout.run_playbook(self.name, path, *extra)

    def on(self, host: str, *command: str, seconds: float = 120) -> str:
        """Run a command as root on a host and return its stdout."""
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.testbed",
                "exec",
                "--name",
                self.name,
                host,
                "--",
                *command,
            ],
            cwd=rollout.ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise AssertionError(
                f"{host}: {' '.join(command)} exited with {done.returncode}\n"
                f"{done.stdout}{done.stderr}"
            )
        return done.stdout

    def traces(self) -> list[str]:
        """Return ``host:path`` for each of the product's paths that exists on a host."""
        script = "; ".join(f"test -e {path} && echo {path}" for path in PRODUCT_PATHS) + "; true"
        return [
            f"{host.name}:{path}"
            for host in description.load(self.name).hosts
            for path in self.on(host.name, "sh", "-c", script).splitlines()
        ]

    def running(
        self, pod: str, *, namespace: str = "default", seconds: float = 90
    ) -> dict[str, Any]:
        """Wait until every container of a pod runs; return the pod.

        Raises:
            WaitError: it doesn't in time; the text holds the pod's status.
        """
        seen: dict[str, Any] = {}

        def look() -> bool:
            seen.update(self.kubectl.get("pod", pod, "-n", namespace))
            return kubectl.is_running(seen)

        try:
            kubectl.wait_for(f"pod {pod} to run", look, seconds=seconds)
        except kubectl.WaitError as error:
            raise kubectl.WaitError(f"{error}: {seen['status']}") from error
        return seen

    def annotation(self, pod: str, key: str) -> str | None:
        """Return one annotation of a pod as it stands now."""
        return kubectl.annotations(self.kubectl.get("pod", pod)).get(key)

    def json(self, pod: str, *command: str, seconds: float = 120) -> Any:
        """Run a command that prints JSON in a pod."""
        return json.loads(self.kubectl.execute(pod, *command, seconds=seconds))
