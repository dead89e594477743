"""Bring a testbed up, roll the product out on it, and find it again."""

import subprocess
import sys

from tests.cluster import rollout
from tests.cluster.kubectl import Kubectl
from tests.cluster.site import Site
from tests.testbed import paths
from tests.testbed.artifacts import kubernetes
from tests.testbed.progress import TestbedError


def testbed(*arguments: str) -> None:
    """Run one of the testbed's commands with its output on the screen.

    Raises:
        TestbedError: it failed; it has said why.
    """
    command = [sys.executable, "-m", "tests.testbed", *arguments]
    if subprocess.run(command, cwd=rollout.ROOT, check=False).returncode:
        raise TestbedError(f"tests.testbed {' '.join(arguments)} failed; it says why above")


def find_site(name: str) -> Site:
    """Return the testbed of this name."""
    state = paths.state_root() / name
    return Site(
        name=name,
        state=state,
        kubectl=Kubectl(
            binary=kubernetes.CURRENT.bin / "kubectl", kubeconfig=state / "admin.kubeconfig"
        ),
    )


def open_site(name: str, *, gpu_hosts: int | None, control_planes: int = 1) -> Site:
    """Start the hosts and their cluster; whatever ran under the name before is removed.

    Args:
        name: the testbed's.
        gpu_hosts: how many; None for a single host that carries the control plane, too.
        control_planes: how many.
    """
    number = ("--one-host",) if gpu_hosts is None else ("--gpu-hosts", str(gpu_hosts))
    testbed("up", "--name", name, *number, "--control-planes", str(control_planes))
    return find_site(name)


def close_site(name: str) -> None:
    """Stop the hosts; nothing is left."""
    testbed("down", "--name", name)


def roll_out(site: Site) -> None:
    """Run site.yml, which says nothing for minutes: its log is named before."""
    log = rollout.log_of(site.name, "site")
    print(f"==> site.yml: some minutes; its tasks: tail -f {log}", flush=True)
    for host, recap in site.playbook("site").items():
        print(f"    {host}: ok={recap.ok} changed={recap.changed} failed={recap.failed}")
