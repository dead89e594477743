"""A driver is replaced under load: what runs keeps its files, new pods get the new driver's."""

import collections.abc
import json
import pathlib
import shutil
import subprocess
from typing import Any, Final

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import annotations, wait_for
from tests.cluster.site import Site
from tests.testbed import paths
from tests.testbed.artifacts import repository
from tests.testbed.host_files import layout

pytestmark = pytest.mark.testbed

HOST: Final = "gpu1"
PINNED: Final[dict[str, Any]] = {"nodeSelector": {"kubernetes.io/hostname": HOST}}
NOW: Final = "535.261.03"
NEXT: Final = "550.163.01"
LIBRARIES: Final = "/usr/local/nvidia/lib64"
BUSY: Final = ["cuda-workload", "--allocate", "1024", "--kernel-us", "1000", "--seconds", "36000"]


@pytest.fixture
def packages(site: Site) -> collections.abc.Iterator[dict[str, str]]:
    """Give the packages of both drivers by version, as the hosts see them; the first one stays."""
    made = paths.cache("simgpu-next")
    command = ["make", "-C", str(repository.SOURCE), f"VERSION={NEXT}", f"OUT={made}", "deb"]
    subprocess.run(command, check=True, capture_output=True)
    name = f"simgpu-driver_{NEXT}_amd64.deb"
    kept = repository.folder() / name  # in no list of packages, so that apt doesn't choose it
    shutil.copy2(made / name, kept)
    seen = pathlib.PurePosixPath(layout.SIMGPU_REPOSITORY)
    found = {NEXT: str(seen / name), NOW: str(seen / f"simgpu-driver_{NOW}_amd64.deb")}
    try:
        yield found
    finally:
        kept.unlink()
        for pod in site.kubectl.items("pods"):
            site.kubectl.delete(f"pod/{pod['metadata']['name']}")
        site.on(HOST, "dpkg", "--install", found[NOW])
        wait_for("the first driver to run", lambda: loaded(site) == NOW)
        wait_for("the agent to see it", lambda: published(site) == (NOW, True))


def loaded(site: Site) -> str:
    """Load the installed driver where no program uses the other one; return which runs."""
    site.on(HOST, "simgpu", "init")
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return site.on(HOST, "sh", "-c", f"{' '.join(query)} || true").splitlines()[0]


def published(site: Site) -> tuple[str, bool]:
    """Return the driver that the node names, and whether all its cards are well."""
    written = annotations(site.kubectl.get("node", HOST))["tencent.com/gpu-devices"]
    found = json.loads(written)
    return found["driver"], all(each["healthy"] for each in found["devices"])


def driver_of(site: Site, pod: str) -> str:
    """Return the version of the driver's files that a pod has."""
    files = site.kubectl.execute(pod, "ls", LIBRARIES).split()
    return next(each.removeprefix("libcuda.so.") for each in files if each.count(".") > 2)


def container_of(site: Site, pod: str) -> tuple[str, int]:
    (status,) = site.running(pod)["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


def start(site: Site, name: str, command: list[str] | None = None) -> tuple[str, int]:
    site.kubectl.apply(workloads.pod(name, workloads.SHARE, command, **PINNED))
    return container_of(site, name)


def test_a_driver_replaced_under_load_is_that_of_pods_after_it(
    site: Site, packages: dict[str, str]
) -> None:
    before = {name: start(site, name, command) for name, command in (("old", None), ("busy", BUSY))}
    site.on(HOST, "dpkg", "--install", packages[NEXT])
    assert loaded(site).startswith("Failed to initialize NVML"), "a program uses the first driver"
    start(site, "during")
    assert driver_of(site, "during") == NOW
    assert site.json("during", "cuda-workload")["devices"]
    assert {name: container_of(site, name) for name in before} == before
    site.kubectl.delete("pod/busy")
    wait_for("the second driver to run", lambda: loaded(site) == NEXT)
    # these hosts have no /sys/module/nvidia/version, which tells a real one's agent at once
    wait_for("the agent to see it", lambda: published(site) == (NEXT, True))
    start(site, "after")
    assert driver_of(site, "after") == NEXT
    assert site.json("after", "cuda-workload")["devices"]
    assert driver_of(site, "old") == NOW
    assert container_of(site, "old") == before["old"]
