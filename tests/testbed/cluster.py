"""The cluster on a testbed's hosts: wait for it, talk to it, choose its scheduler."""

import os
import subprocess
import time

from tests.testbed import description, hosts, progress
from tests.testbed.artifacts import kubernetes

READY_SECONDS = 90
POLL_SECONDS = 0.2
CURRENT_UNIT = "kube-scheduler.service"
POLICY_UNIT = f"kube-scheduler-{kubernetes.POLICY.minor}.service"
POLICY_FILE = "/etc/kubernetes/scheduler-policy-config.json"


def kubectl(testbed: description.Testbed, *words: str) -> str:
    """Run kubectl on this machine as the cluster's administrator; return its output.

    Raises:
        TestbedError: It failed.
    """
    return progress.output(kubectl_command(testbed, *words))


def kubectl_command(testbed: description.Testbed, *words: str) -> list[str]:
    """Return the command line of kubectl for this testbed."""
    program = kubernetes.CURRENT.bin / "kubectl"
    return [str(program), f"--kubeconfig={testbed.kubeconfig}", *words]


def wait_ready(testbed: description.Testbed) -> None:
    """Wait until the API server serves, every GPU host is a Ready node, and pods can be made.

    Raises:
        TestbedError: That took too long; the text names the missing part and the log.
    """
    deadline = time.monotonic() + READY_SECONDS
    while missing := _missing(testbed):
        if time.monotonic() > deadline:
            raise progress.TestbedError(
                f"the cluster is not ready after {READY_SECONDS} s: {missing}\n"
                f"look at: python -m tests.testbed exec --name {testbed.name} cp1 -- "
                "journalctl -n 50 -u kube-apiserver"
            )
        time.sleep(POLL_SECONDS)


def _missing(testbed: description.Testbed) -> str:
    """Return the reason that the cluster isn't ready; empty when it is."""
    ready = (
        "{range .items[*]}{.metadata.name}={.status.conditions[?(@.type=='Ready')].status} {end}"
    )
    try:
        nodes = kubectl(testbed, "get", "nodes", f"--output=jsonpath={ready}").split()
        absent = [host.name for host in testbed.gpu_hosts if f"{host.name}=True" not in nodes]
        if absent:
            return f"no Ready node: {', '.join(absent)}"
        for host in testbed.control_planes:
            kubectl(testbed, f"--server=https://{host.address}:6443", "get", "--raw=/readyz")
        # without it the API server refuses every pod
        kubectl(testbed, "get", "serviceaccount", "default", "--namespace=default")
    except progress.TestbedError as error:
        return str(error)
    return ""


def use_scheduler(testbed: description.Testbed, minor: str) -> None:
    """Stop one kube-scheduler and start the other, which takes over at once.

    Args:
        testbed: A testbed with a cluster.
        minor: that of the cluster, or ``1.22``.

    Raises:
        TestbedError: The other isn't built, has no Policy file, or doesn't start.
    """
    policy = minor == kubernetes.POLICY.minor
    if policy:
        _check_policy(testbed)
    start, stop = (POLICY_UNIT, CURRENT_UNIT) if policy else (CURRENT_UNIT, POLICY_UNIT)
    stop_scheduler(testbed, stop)
    hosts.output(testbed, testbed.control_plane, ["systemctl", "enable", "--now", "--quiet", start])
    wait_leader(testbed, start)


def stop_scheduler(testbed: description.Testbed, unit: str) -> None:
    """Stop a kube-scheduler, so that the next one leads at once."""
    hosts.output(testbed, testbed.control_plane, ["systemctl", "disable", "--now", "--quiet", unit])
    # the holder of the lease is gone: the next one need not wait for it to expire
    kubectl(testbed, "delete", "lease", "kube-scheduler", "--namespace=kube-system",
            "--ignore-not-found")  # fmt: skip


def _check_policy(testbed: description.Testbed) -> None:
    if kubernetes.POLICY.missing:
        raise progress.TestbedError(
            "kube-scheduler 1.22 is not built: python -m tests.testbed build --policy-scheduler"
        )
    if hosts.run(testbed, testbed.control_plane, ["test", "-e", POLICY_FILE]).returncode:
        raise progress.TestbedError(f"cp1 has no {POLICY_FILE}: kube-scheduler 1.22 needs it")


def wait_leader(testbed: description.Testbed, unit: str) -> None:
    """Wait until the unit's scheduler leads, so that it schedules.

    Raises:
        TestbedError: It doesn't; the text says where to look.
    """
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        holder = subprocess.run(
            kubectl_command(testbed, "get", "lease", "kube-scheduler", "--namespace=kube-system",
                            "--output=jsonpath={.spec.holderIdentity}"),
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
        if holder:
            return
        time.sleep(POLL_SECONDS)
    raise progress.TestbedError(
        f"the scheduler of {unit} did not become the leader in {READY_SECONDS} s; look at: "
        f"python -m tests.testbed exec --name {testbed.name} cp1 -- journalctl -n 50 -u {unit}"
    )


def environment(testbed: description.Testbed) -> dict[str, str]:
    """Return this process's environment, in which kubectl talks to the testbed's cluster."""
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return {
        **os.environ,
        "KUBECONFIG": str(testbed.kubeconfig),
        "PATH": f"{kubernetes.CURRENT.bin}:{path}",
    }
