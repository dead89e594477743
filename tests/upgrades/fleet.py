"""A site of three GPU hosts, whose playbooks may be another checkout's, or be killed."""

import dataclasses
import os
import signal
import subprocess
from pathlib import Path

from tests.cluster import rollout
from tests.cluster.site import Site

# What changes on a host without an installation: while a cluster runs, by the kubelet's and the
# runtime's own hands, by Ansible before its first task, by Python where it imports the
# distribution's packages, and by apt where it reads any repository. An index that apt keeps in
# /var/lib/apt/lists is none of these.
CHANGING = (
    "/proc", "/sys", "/run", "/tmp", "/root/.cache", "/var/cache", "/var/log",
    "/var/lib/containerd", "/var/lib/cni", "/var/lib/kubelet/pods",
    "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
    "/var/lib/kubelet/allocated_pods_state", "/var/lib/kubelet/actuated_pods_state",
    "/root/.ansible",
    "'/usr/lib/python3/dist-packages/*__pycache__'",
    "/var/lib/apt/lists/auxfiles", "/var/lib/apt/lists/lock", "/var/lib/apt/lists/partial",
)  # fmt: skip
# Folders that systemd makes for any unit's files; the files themselves count.
MADE = ("/var/lib/systemd/timers",)
# Prints what an installation may leave on a host: files with their kind, mode, owner and target,
# accounts, packages, units and the kernel's settings.
LISTING = f"""
find / -xdev \\( {" -o ".join(f"-path {path}" for path in CHANGING)} \\) -prune \\
  {" ".join(f"-o -path {path}" for path in MADE)} \\
  -o -printf 'file %p %y %m %U:%G %l\\n'
getent passwd; getent group; dpkg-query --show; apt-mark showmanual
systemctl list-unit-files --no-legend | awk '{{print "unit", $1, $2}}'
sysctl fs.leases-enable
"""
GPU_HOSTS = ("gpu1", "gpu2", "gpu3")
HOSTS = ("cp1", *GPU_HOSTS)


@dataclasses.dataclass(slots=True, kw_only=True)
class Fleet(Site):
    """A testbed of three GPU hosts."""

    def playbook(
        self,
        playbook: str,
        *extra: str,
        root: Path = rollout.ROOT,
        inventory: str = rollout.INVENTORY,
    ) -> dict[str, rollout.Recap]:
        """Run a playbook, of another checkout if ``root`` names one, on all hosts."""
        return rollout.run_playbook(
            self.name, _path(playbook), *self._hosts, *extra, root=root, inventory=inventory
        )

    def kill_at(self, task: int, playbook: str, *extra: str) -> str | None:
        """Run a playbook and kill the controller at its task of this number, the first being 0.

        Returns:
            the task's name; None where the run has ended before.
        """
        with rollout.start_playbook(
            self.name, _path(playbook), *self._hosts, *extra, output=subprocess.PIPE, group=0
        ) as running:
            assert running.stdout is not None  # PIPE was asked for
            seen = -1
            for line in running.stdout:
                found = rollout.TASK.match(line.rstrip("\n"))
                seen += found is not None
                if found and seen == task:
                    os.killpg(running.pid, signal.SIGKILL)
                    return found["name"]
        return None

    def tasks(self, playbook: str) -> int:
        """Return how many tasks the playbook's last whole run had."""
        log = rollout.log_of(self.name, playbook)
        return len(rollout.TASK.findall(log.read_text()))

    def listing(self, host: str) -> set[str]:
        """Return what lies on a host, a line each."""
        return set(self.on(host, "sh", "-c", LISTING).splitlines())

    def keep_listings(self) -> None:
        """Write down what lies on the hosts, before anything is installed."""
        for host in HOSTS:
            text = "\n".join(sorted(self.listing(host)))
            self._listing_file(host).write_text(text, "utf-8")

    def changes_since_before(self, host: str) -> list[str]:
        """Return what a host has (+) and lacks (-) since before anything was installed."""
        before = set(self._listing_file(host).read_text("utf-8").split("\n"))
        after = self.listing(host)
        return sorted(
            [f"+ {line}" for line in after - before] + [f"- {line}" for line in before - after]
        )

    def _listing_file(self, host: str) -> Path:
        return self.state / f"{host}.listing"

    @property
    def _hosts(self) -> tuple[str, str]:
        return "-i", str(self.state / "inventory.yml")


def _path(playbook: str) -> str:
    if "." in playbook:
        return playbook  # of a collection
    return "site.yml" if playbook == "site" else f"playbooks/{playbook}.yml"
