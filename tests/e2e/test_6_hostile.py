"""Root in a container does with its files what it can: neighbour and agent don't feel it."""

import collections.abc

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

HOST = "gpu1"
PLACE = {"kubernetes.io/hostname": HOST}
IS_READY = (
    "/opt/gpustack/venv/bin/python",
    "-c",
    "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:5678/readyz').status)",
)
OWN = "/etc/vcuda/limits /etc/vcuda/activity /etc/vcuda/ledger"
SHARED = "/etc/ld.so.preload /etc/vcuda/hook/* /usr/local/nvidia/lib64/*"
LEDGER = "/etc/vcuda/ledger"
OF_FOREIGN_LIMITS = "--field-selector=involvedObject.name=stays,reason=ForeignLimits"
BUSY, READ_ONLY = "esource busy", "Read-only file system"

# What it tries, and what the kernel or the agent says to it. Each kernel's word stands once a line.
REFUSED = {
    "a lease": (f"take-lease {OWN}", {"refused"}),
    # a lease for reading delays writers alone, and nobody writes to these
    "a lease on others' files": (f"take-lease {SHARED} | grep write", {"write refused"}),
    "rename": (f"mv {LEDGER} /etc/vcuda/other", {BUSY}),
    "a symlink": (f"rm -f {LEDGER} && ln -s /proc/1/mem {LEDGER}", {BUSY}),
    "a FIFO": (f"rm -f {LEDGER} && mkfifo {LEDGER}", {BUSY}),
    "a write to the limits": ("echo > /etc/vcuda/limits", {READ_ONLY}),
    "chmod of the limits": ("chmod 777 /etc/vcuda/limits", {READ_ONLY}),
    "chown of the hook": ("chown 1000 /etc/vcuda/hook/libvcuda.so", {READ_ONLY}),
}
RESTORED = {
    "chmod": f"chmod 4755 {LEDGER}",
    "chown": f"chown 1000:1000 {LEDGER}",
    "chmod of a file of another": f"chown 1000:1000 {LEDGER} && chmod 4755 {LEDGER}",
    "truncate": f"truncate -s 0 {LEDGER}",
    # until its file system is full: of blocks that the ledger itself hasn't touched yet, too
    "append": f"cat /dev/zero >> {LEDGER} || true",
}


@pytest.fixture
def pods(site: Site) -> collections.abc.Iterator[str]:
    """Run a hostile container and a neighbour on one host; give the ledger of the hostile one."""
    for name in ("hostile", "neighbour"):
        site.kubectl.apply(workloads.pod(name, workloads.SHARE, nodeSelector=PLACE))
    for name in ("hostile", "neighbour"):
        site.running(name)
    uid = site.kubectl.get("pod", "hostile")["metadata"]["uid"]
    yield f"/var/lib/gpustack/containers/{uid}/vcuda-test/ledger"
    assert site.on(HOST, *IS_READY) == "200\n"
    assert has_its_share(site, "neighbour")
    site.kubectl.apply(workloads.pod("next", workloads.SHARE, nodeSelector=PLACE))
    site.running("next")


def has_its_share(site: Site, name: str) -> bool:
    said = site.kubectl.execute(name, "sh", "-c", "cuda-workload --try 4096 || true")
    return f'"total": {workloads.SHARE_BYTES}' in said and '"result": "CUDA_SUCCESS"' in said


def test_the_kernel_refuses_what_a_tenant_may_not(site: Site, pods: str) -> None:
    wrong = []
    for attack, (command, words) in REFUSED.items():
        said = site.kubectl.execute("hostile", "sh", "-c", f"({command}) 2>&1; true").splitlines()
        if not said or not all(any(word in line for word in words) for line in said):
            wrong.append(f"{attack}: {said}")
    assert not wrong
    assert has_its_share(site, "hostile")


@pytest.mark.parametrize("attack", RESTORED)
def test_it_is_restored_and_reported(site: Site, pods: str, attack: str) -> None:
    form = ("stat", "--format=%a %s", pods)
    before = site.on(HOST, *form)
    site.kubectl.execute("hostile", "sh", "-c", RESTORED[attack])
    wait_for("the form to be restored", lambda: site.on(HOST, *form) == before)
    selected = "--field-selector=involvedObject.name=hostile,reason=LedgerDamaged"
    wait_for("the Event", lambda: site.kubectl.items("events", selected))
    # a ledger that lost its counts grants nothing before the container starts anew
    assert has_its_share(site, "hostile") == (attack != "truncate")


@pytest.fixture
def kills(site: Site) -> collections.abc.Iterator[None]:
    """Let the host's agent kill what goes past its limits."""
    file, restart = "/etc/gpustack/agent.yml", "systemctl restart gpustack-agent.service"
    edit = f"sed -i.kept 's/^on_violation: .*/on_violation: kill/' {file}"
    site.on(HOST, "sh", "-c", f"{edit} && {restart}")
    yield
    site.on(HOST, "sh", "-c", f"mv {file}.kept {file} && {restart}")


def test_a_tenant_that_ignores_its_end_is_killed_and_its_card_is_free(
    site: Site, kills: None
) -> None:
    whole = {workloads.CORE: "200"}
    command = ["sh", "-c", f"trap '' TERM; {workloads.MOVING}"]
    pod = workloads.pod("stays", workloads.SHARE, command, nodeSelector=PLACE)
    pod["spec"]["terminationGracePeriodSeconds"] = 3600
    site.kubectl.apply(pod)
    wait_for("the Event", lambda: site.kubectl.items("events", OF_FOREIGN_LIMITS))
    site.kubectl.apply(workloads.pod("next", whole, nodeSelector=PLACE))
    # Its cards stay taken while the sandbox of the one before is ready, 250 s at most.
    site.running("next", seconds=300)

    def names() -> set[str]:
        return {each["metadata"]["name"] for each in site.kubectl.items("pods")}

    # Kubelet takes the pod off the API server only after the sandbox has ended.
    wait_for("the pod to be gone", lambda: names() == {"next"})
    assert "cuda-workload" not in site.on(HOST, "ps", "-e", "-o", "args")
