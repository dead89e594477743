"""A Debian 12 in a folder, which the role nvidia_driver enters by chroot.

It is the testbed's root with Debian's archive, and has no systemd that runs, no card and no kernel
of its own: packages are installed, held and purged as on a host, and DKMS builds the modules for
Debian's kernel, whose headers are there. Nothing loads them.
"""

import os
import pathlib
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import yaml

from tests.ansible import layout, plugins
from tests.cluster import rollout

reader = plugins.load("roles/nvidia_driver/library/nvidia_driver_host.py")
ARCHIVE = "http://deb.debian.org/debian"
SECURITY = f"{ARCHIVE}-security"
# firmware-nvidia-gsp, which the modules need, is in the last
COMPONENTS = "main contrib non-free non-free-firmware"
# They are the command's own, and go with it.
MOUNTS = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && shift && exec "$@"
"""


class Host:
    """The folder and what is done in it."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        resolver = pathlib.Path("/etc/resolv.conf").read_text()
        (root / "etc/resolv.conf").write_text(resolver)
        # as images of containers have it: no service starts where no init runs
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        self.read_archive(f"deb {ARCHIVE} bookworm {COMPONENTS}")

    def read_archive(self, *sources: str) -> None:
        """Let apt know these sources, and no others."""
        (self._root / "etc/apt/sources.list").write_text("\n".join([*sources, ""]))
        self.run("apt-get", "--quiet", "update")

    def run(self, *command: str) -> str:
        """Run a program there and return what it prints.

        Raises:
            CalledProcessError: it failed.
        """
        return self._mounted("chroot", str(self._root), *command, check=True).stdout

    def role(self, entry: str = "main", **variables: Any) -> rollout.Recap:
        """Run a part of the role, with its variables without their prefix; return its recap."""
        named = {f"nvidia_driver_{name}": value for name, value in variables.items()}
        role = {"import_role": {"name": "nvidia_driver", "tasks_from": entry}, "vars": named}
        play = self._root.parent / "play.yml"
        play.write_text(yaml.safe_dump([{"hosts": "all", "tasks": [role]}]))
        inventory = play.with_name("inventory.yml")
        host = {
            "ansible_connection": "community.general.chroot",
            "ansible_host": str(self._root),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"debian": host}}}))
        done = self._mounted("ansible-playbook", f"--inventory={inventory}", str(play), check=False)
        assert done.returncode == 0, done.stdout[-8000:]
        return rollout.parse_recap(done.stdout)["debian"]

    def packages(self) -> Mapping[str, str]:
        """Return the packages' versions; `config-files` of one that has left files in /etc."""
        form = "${db:Status-Status}|${Package}|${Version}\n"
        listed = self.run("dpkg-query", "--show", f"--showformat={form}")
        found = (line.split("|") for line in listed.splitlines())
        return {name: version if state == "installed" else state for state, name, version in found}

    def candidate(self, package: str) -> str:
        """Return the version that apt would install."""
        (version,) = re.findall(r"Candidate: (\S+)", self.run("apt-cache", "policy", package))
        return str(version)

    def built(self) -> str:
        """Return the version of NVIDIA's module for Debian's kernel; empty if there is none.

        Its file is found as the role does.
        """
        (kernel,) = (path.name for path in (self._root / "lib/modules").iterdir())
        name = reader.module_of(self.run("modprobe", "--showconfig"))
        asked = ("modinfo", f"--set-version={kernel}", "--field=version", name)
        done = self._mounted("chroot", str(self._root), *asked, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    def _mounted(self, *command: str, check: bool) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            "HOME": str(pathlib.Path.home()),
            "LANG": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        return subprocess.run(
            ["unshare", "--mount", "--propagation=private", "sh", "-c", MOUNTS, "sh",
             str(self._root), *command],
            cwd=layout.ROOT, env=environment, check=check, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
