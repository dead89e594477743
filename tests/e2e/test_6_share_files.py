"""The files of each share lie on a tmpfs of exactly their size, which a host's boot makes anew."""

from collections.abc import Iterator

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

HOST = "gpu1"
BOOT_SECONDS = 180  # of a busy machine
LATE = "/etc/systemd/system/gpustack-agent.service.d/late.conf"
PLACE = {"kubernetes.io/hostname": HOST}
# The unit that systemd makes of its mount would have a name of over 255 characters.
LONGEST_ESCAPED = f"a{'-' * 61}a"
LISTS = ("findmnt", "--noheadings", "--list", "--types=tmpfs", "--output=TARGET,OPTIONS")


def mounts(site: Site) -> list[str]:
    """Return folder and options of each share's tmpfs on the host."""
    lines = site.on(HOST, *LISTS).splitlines()
    return [line for line in lines if line.startswith("/var/lib/gpustack/containers/")]


@pytest.fixture(autouse=True)
def none_before(site: Site) -> None:
    """Begin when the agent has removed the files of earlier pods."""
    wait_for("earlier mounts to go", lambda: not mounts(site))


def start(site: Site, name: str) -> None:
    site.kubectl.apply(workloads.pod(name, workloads.SHARE, nodeSelector=PLACE))
    site.running(name)


def memory(site: Site, name: str) -> int:
    """Return the bytes of memory that a container sees."""
    total: int = site.json(name, "cuda-workload")["devices"][0]["total"]
    return total


def container_id(site: Site, name: str) -> str:
    """Return the ID of the container that runs; nothing while none does."""
    for status in site.kubectl.get("pod", name)["status"].get("containerStatuses", []):
        if "running" in status["state"]:
            return str(status["containerID"])
    return ""


def runs_another(site: Site, name: str, before: str) -> bool:
    return container_id(site, name) not in {"", before}


def wait_for_another(site: Site, name: str, before: str) -> None:
    """Wait until another container of a pod runs."""
    wait_for(
        "the next container",
        lambda: runs_another(site, name, before),
        seconds=BOOT_SECONDS,
    )


def kill(site: Site, container: str) -> None:
    """Kill a container as the kernel does that has no memory left; the kubelet starts another."""
    name = container.removeprefix("containerd://")
    site.on(HOST, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", name)


def test_a_tenant_gets_no_room_beyond_its_files(site: Site) -> None:
    start(site, "greedy")
    start(site, "neighbour")
    writes = "dd if=/dev/zero of=/etc/vcuda/ledger bs=64k count=1024 seek=1024 2>&1; true"
    assert "No space left on device" in site.kubectl.execute("greedy", "sh", "-c", writes)
    for each in mounts(site):
        assert {"nosuid", "nodev", "noexec"} <= set(each.split()[1].split(","))
    named = workloads.pod("dashes", workloads.SHARE, nodeSelector=PLACE)
    named["spec"]["containers"][0]["name"] = LONGEST_ESCAPED
    site.kubectl.apply(named)
    site.running("dashes")
    assert len(mounts(site)) == 3
    assert memory(site, "dashes") == workloads.SHARE_BYTES
    assert memory(site, "neighbour") == workloads.SHARE_BYTES
    site.kubectl.delete("pods", "--all")
    wait_for("the mounts to go", lambda: not mounts(site))


def test_files_outlive_the_agent_and_the_mounts_unit(site: Site) -> None:
    start(site, "share")
    before = mounts(site), container_id(site, "share")
    site.on(HOST, "systemctl", "stop", "gpustack-agent.service")
    site.on(HOST, "systemctl", "kill", "--signal=SIGKILL", "gpustack-mount.service")
    assert mounts(site) == before[0]
    kill(site, before[1])
    site.on(HOST, "systemctl", "start", "gpustack-agent.service")
    wait_for_another(site, "share", before[1])
    assert mounts(site) == before[0]
    assert memory(site, "share") == workloads.SHARE_BYTES


@pytest.mark.parametrize("torn", ["limits", "activity", "ledger", "checkpoint"])
def test_a_torn_file_is_made_anew_for_the_next_container(site: Site, torn: str) -> None:
    start(site, "share")
    before = mounts(site), container_id(site, "share")
    if torn == "checkpoint":
        site.on(HOST, "systemctl", "stop", "gpustack-agent.service")
        site.on(HOST, "truncate", "--size=40", "/var/lib/gpustack/checkpoint.json")
        site.on(HOST, "systemctl", "start", "gpustack-agent.service")
    else:
        (folder,) = (line.split()[0] for line in before[0])
        zeroes = ("if=/dev/zero", f"of={folder}/{torn}", "bs=4096", "count=1", "conv=notrunc")
        site.on(HOST, "dd", *zeroes)
    kill(site, before[1])
    wait_for_another(site, "share", before[1])
    assert mounts(site) == before[0]
    assert memory(site, "share") == workloads.SHARE_BYTES


def is_refused(site: Site, name: str) -> bool:
    """Say whether the kubelet has refused a pod, as it does where no plugin has registered yet.

    After a reboot it may admit pods first, and tries none of them again:
    https://github.com/kubernetes/kubernetes/issues/109595
    """
    status = site.kubectl.get("pod", name)["status"]
    return bool(status.get("reason") == "UnexpectedAdmissionError")


@pytest.fixture
def late(site: Site, request: pytest.FixtureRequest) -> Iterator[bool]:
    """Have the agent of the host start long after its kubelet, where that is asked."""
    if request.param:
        site.on(HOST, "mkdir", "-p", LATE.rpartition("/")[0])
        site.on(HOST, "sh", "-c", f"printf '[Service]\nExecStartPre=/bin/sleep 45\n' > {LATE}")
    yield request.param
    if request.param:
        site.on(HOST, "rm", "-r", LATE.rpartition("/")[0])
        site.on(HOST, "systemctl", "daemon-reload")


@pytest.mark.parametrize(
    "late", [False, pytest.param(True, marks=pytest.mark.nightly)], indirect=True
)
def test_a_rebooted_host_makes_the_files_of_its_shares_anew(site: Site, late: bool) -> None:
    start(site, "share")
    before = mounts(site), container_id(site, "share")
    site.on(HOST, "systemctl", "reboot", "--no-block")
    wait_for(
        "the pod to be started or refused",
        lambda: runs_another(site, "share", before[1]) or is_refused(site, "share"),
        seconds=BOOT_SECONDS,
    )
    assert is_refused(site, "share") or not late
    if is_refused(site, "share"):
        site.kubectl.delete("pod", "share")
        start(site, "share")  # as its controller does
        wait_for("the files of the refused pod to go", lambda: len(mounts(site)) == 1)
    else:
        assert mounts(site) == before[0]
    assert memory(site, "share") == workloads.SHARE_BYTES
