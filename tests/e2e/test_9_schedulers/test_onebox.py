"""One node with a driver gets its first share as docs/onebox.md says, beside a foreign scheduler.

The cluster is that host: its control plane lies there as kubeadm's does, with kubeadm's taint.
"""

import collections.abc
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import time

import pytest
import yaml

from tests.ansible import layout
from tests.cluster import opening, rollout, workloads
from tests.cluster.kubectl import conditions, wait_for
from tests.cluster.site import Site
from tests.e2e.test_9_schedulers.test_own_scheduler import theirs
from tests.testbed.artifacts import kubernetes
from tests.testbed.host_files.layout import SIMGPU_REPOSITORY

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

NAME, HOST = "onebox", "gpu1"
PAGE = (layout.ROOT / "docs" / "onebox.md").read_text("utf-8")
MADE = ["make bundle", 'export PATH="$(make -s path):$PATH"']
TAINT = "node-role.kubernetes.io/control-plane"
COMMANDS = re.findall(r"^ansible-playbook -i inventories/mysite (\S+)$", PAGE, re.MULTILINE)
[POD] = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)]
FIRST_SHARE_SECONDS = 600
CONFIRMED = "--extra-vars=uninstall_confirmed=true"


@dataclasses.dataclass(slots=True, kw_only=True)
class Box(Site):
    """A testbed of one host."""

    inventory: str

    def run(self, path: str, *extra: str, root: pathlib.Path = layout.ROOT) -> rollout.Recap:
        """Run a playbook of a checkout, by its path, on the host."""
        done = rollout.run_playbook(self.name, path, *extra, root=root, inventory=self.inventory)
        assert list(done) == [HOST]
        return done[HOST]


def lay_inventory(path: pathlib.Path, kubeconfig: pathlib.Path) -> None:
    """Write inventories/onebox for the testbed: its connection, its files, its simulated cards."""
    demo = layout.ROOT / "inventories" / "demo" / "group_vars"
    simulated = layout.load(demo / "gpu_nodes" / "main.yml")
    shipped = layout.load(layout.ROOT / "inventories" / "onebox" / "group_vars/all/main.yml")
    values = {
        **layout.load(demo / "all" / "main.yml"),
        **{key: value for key, value in simulated.items() if not key.startswith("nvidia_driver")},
        **{key: value for key, value in shipped.items() if key != "ansible_user"},
        "kube_scheduler_own_binary": str(kubernetes.CURRENT.bin / "kube-scheduler"),
        "cluster_objects_kubeconfig": str(kubeconfig),
    }
    groups = {
        group: {"hosts": {HOST: {"testbed_host": HOST}}}
        for group in ("kube_control_plane", "gpu_nodes")
    }
    path.write_text(yaml.safe_dump({"all": {"vars": values}, **groups}))


@pytest.fixture(scope="module")
def box() -> collections.abc.Iterator[Box]:
    """Start the hosts; the GPU host has no driver yet."""
    site = opening.open_site(NAME, gpu_hosts=None)
    site.kubectl.run("taint", "nodes", HOST, f"{TAINT}:NoSchedule")
    path = site.state / "box.yml"
    lay_inventory(path, site.state / "admin.kubeconfig")
    yield Box(name=NAME, state=site.state, kubectl=site.kubectl, inventory=str(path))
    opening.close_site(NAME)


@pytest.fixture(scope="module")
def found(box: Box) -> str:
    """Give what the control plane runs with before ours comes."""
    return theirs(box, HOST)


@pytest.fixture(scope="module")
def driver(box: Box) -> None:
    """Install the driver as an administrator does."""
    box.on(HOST, "sh", "-c", f"dpkg --install {SIMGPU_REPOSITORY}/*.deb")


def refused(box: Box, told: str, **variables: str) -> None:
    """Check that the playbook changes nothing, and says this."""
    with pytest.raises(rollout.PlaybookError) as error:
        box.run(COMMANDS[0], f"--extra-vars={json.dumps(variables)}")
    assert told in " ".join(str(error.value).split())
    assert box.traces() == []


def test_a_host_without_a_driver_is_refused(box: Box) -> None:
    refused(box, "nvidia_driver_packages is [], and nvidia-smi names no card on gpu1")


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("cluster_objects_kubeconfig", "/missing", "and no file on the controller"),
        ("kube_scheduler_own_binary", "/missing", "and must be the path of a kube-scheduler"),
        ("kube_scheduler_own_binary", "/bin/true", "and says true (GNU coreutils)"),
        ("kube_scheduler_own_binary", str(layout.ROOT / "LICENSE"), "and is not executable"),
    ],
)
def test_a_bad_file_is_named_before_anything_changes(
    box: Box, variable: str, value: str, told: str
) -> None:
    refused(box, f"{variable} is {value}, {told}", **{variable: value})


@pytest.mark.usefixtures("driver")
def test_a_kube_scheduler_newer_than_the_api_server_is_refused(
    box: Box, tmp_path: pathlib.Path
) -> None:
    newer = tmp_path / "kube-scheduler"
    newer.write_text("#!/bin/sh\necho Kubernetes v1.99.0\n")
    newer.chmod(0o755)
    told = "is a kube-scheduler 1.99, and the API server is"
    refused(box, told, kube_scheduler_own_binary=str(newer))


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("port", "variable"), [(3456, "gpustack_extender_listen"), (10269, "kube_scheduler_own_port")]
)
def test_a_port_that_is_taken_is_named(box: Box, port: int, variable: str) -> None:
    serve = f"import socket; s = socket.create_server(('127.0.0.1', {port})); s.accept()"
    box.on(HOST, "systemd-run", "--unit=other", "--property=Restart=always", "python3", "-c", serve)
    try:
        refused(box, f"set {variable}")
    finally:
        box.on(HOST, "systemctl", "stop", "other")


def prepare(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a clone with its bundle, by the page's words; nothing of it was built or fetched."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", layout.ROOT, clone], check=True)
    assert "```\n" + "\n".join(MADE) + "\n" in PAGE
    done = subprocess.run(
        ["bash", "-euc", "\n".join(("exec 3>&1 >&2", *MADE, 'echo "$PATH" >&3'))],
        cwd=clone, env={**os.environ, "GPUSTACK_CACHE": str(folder / "cache")},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    monkeypatch.setenv("PATH", done.stdout.strip())
    return clone


@pytest.mark.usefixtures("driver")
def test_the_page_leads_to_a_share_within_ten_minutes(
    box: Box, found: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.monotonic()
    clone = prepare(tmp_path, monkeypatch)
    print(f"bundle after {time.monotonic() - begun:.0f} s")
    box.run(COMMANDS[0], root=clone)
    assert f"`kubectl taint nodes --all {TAINT}-`" in PAGE
    box.kubectl.run("taint", "nodes", "--all", f"{TAINT}-")
    container = {
        **POD["spec"]["containers"][0],
        "image": workloads.CUDA_IMAGE, "imagePullPolicy": "Never",
    }  # fmt: skip
    box.kubectl.apply({**POD, "spec": {**POD["spec"], "containers": [container]}})
    box.running("share")
    took = time.monotonic() - begun
    print(f"first share after {took:.0f} s")
    assert took < FIRST_SHARE_SECONDS
    assert "8192MiB" in box.kubectl.execute("share", "/usr/local/nvidia/bin/nvidia-smi")
    assert theirs(box, HOST) == found


def test_a_second_run_changes_nothing(box: Box) -> None:
    assert box.run(COMMANDS[0]).changed == 0


def test_uninstall_leaves_the_driver_and_nothing_else(box: Box, found: str) -> None:
    box.kubectl.delete("pods", "--all")
    wait_for("no pod to be left", lambda: not box.kubectl.items("pods"))
    box.run(COMMANDS[1], CONFIRMED)
    assert box.traces() == []
    assert "UnhealthyCards" not in conditions(box.kubectl.get("node", HOST))
    kinds = "serviceaccounts,roles,leases,clusterrolebindings,validatingadmissionpolicies"
    left = box.kubectl.run("get", kinds, "--output=name", "--namespace=kube-system")
    assert "gpustack" not in left
    assert "GPU 0" in box.on(HOST, "nvidia-smi", "--list-gpus")
    assert theirs(box, HOST) == found
