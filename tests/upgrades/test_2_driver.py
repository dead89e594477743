"""The driver of three hosts goes from 535 to 550, one host at a time; one that fails goes back."""

import collections.abc
import json
import shutil
import subprocess
import threading

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import annotations, is_running, wait_for
from tests.cluster.rollout import PlaybookError
from tests.testbed import paths, progress
from tests.testbed.artifacts import repository
from tests.testbed.host_files import layout
from tests.upgrades.fleet import GPU_HOSTS, Fleet

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

NOW, NEXT = "535.261.03", "550.163.01"
FOLDER = "next"
CHOSEN = {
    "upgrade_parts": "driver",
    "cluster_objects_trial_image": workloads.CUDA_IMAGE,
    "nvidia_driver_packages": [f"simgpu-driver={NEXT}"],
    "nvidia_driver_repository_uris": [f"file:{layout.SIMGPU_REPOSITORY}/{FOLDER}"],
}
DRIVER = f"--extra-vars={json.dumps(CHOSEN)}"
# apt fails once it has installed 550, as it does where a module doesn't build.
INSTALLED = "dpkg-query --show --showformat='${Version}' simgpu-driver"
REFUSAL = f'DPkg::Post-Invoke {{ "! {INSTALLED} | grep --quiet ^550"; }};'
REFUSAL_FILE = "/etc/apt/apt.conf.d/99refuse-550"
PODS = 6


@pytest.fixture
def both_drivers() -> collections.abc.Iterator[None]:
    """Give the hosts a repository with both drivers, beside the one that has 535 alone."""
    made = paths.cache("simgpu-next")
    progress.call(
        ["make", "-C", repository.SOURCE, f"VERSION={NEXT}", f"OUT={made}", "deb"],
        log="testbed-simgpu-next",
    )
    folder = repository.folder() / FOLDER
    folder.mkdir(exist_ok=True)
    shutil.copy2(made / f"simgpu-driver_{NEXT}_amd64.deb", folder)
    shutil.copy2(repository.folder() / f"simgpu-driver_{NOW}_amd64.deb", folder)
    listing = progress.output(["sh", "-euc", f"cd '{folder}' && dpkg-scanpackages -m ."])
    (folder / "Packages").write_text(listing)
    yield
    shutil.rmtree(folder)


@pytest.fixture
def pods(fleet: Fleet) -> collections.abc.Iterator[None]:
    """Run shares on all hosts, which a drain moves."""
    container = workloads.container(workloads.SHARE, ["cuda-workload", "--hold"])
    fleet.kubectl.apply(workloads.deployment("moved", PODS, container))
    wait_for("all to run", lambda: all_run(fleet), seconds=180)
    yield
    fleet.kubectl.delete("deployment/moved")


@pytest.fixture
def cordoned(fleet: Fleet) -> collections.abc.Iterator[set[frozenset[str]]]:
    """Collect which nodes are cordoned at the same time, by watching them."""
    seen: set[frozenset[str]] = set()
    now: set[str] = set()
    command = [
        str(fleet.kubectl.binary), f"--kubeconfig={fleet.kubectl.kubeconfig}", "get", "nodes",
        "--watch", "--output=jsonpath={.metadata.name} {.spec.unschedulable}{\"\\n\"}",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:

        def read() -> None:
            assert watch.stdout is not None  # PIPE was asked for
            for line in watch.stdout:
                name, _, flag = line.strip().partition(" ")
                (now.add if flag == "true" else now.discard)(name)
                seen.add(frozenset(now))

        reader = threading.Thread(target=read)
        reader.start()
        yield seen
        watch.terminate()
        reader.join()


def all_run(fleet: Fleet) -> bool:
    found = fleet.kubectl.items("pods", "--selector=k8s-app=moved")
    return len(found) == PODS and all(is_running(pod) for pod in found)


def drivers(fleet: Fleet) -> dict[str, str]:
    """Return the installed driver of each host, which its node names, too."""
    installed = {host: fleet.on(host, "sh", "-c", INSTALLED) for host in GPU_HOSTS}
    wait_for("the nodes to name them", lambda: published(fleet) == installed, seconds=30)
    return installed


def published(fleet: Fleet) -> dict[str, str]:
    written = {
        host: annotations(fleet.kubectl.get("node", host))["tencent.com/gpu-devices"]
        for host in GPU_HOSTS
    }
    return {host: json.loads(text)["driver"] for host, text in written.items()}


def containers_on(fleet: Fleet, host: str) -> set[str]:
    return {
        pod["status"]["containerStatuses"][0]["containerID"]
        for pod in fleet.kubectl.items("pods", f"--field-selector=spec.nodeName={host}")
    }


def test_a_driver_that_fails_on_one_host_goes_back_and_ends_the_run(
    fleet: Fleet, both_drivers: None, pods: None, cordoned: set[frozenset[str]]
) -> None:
    fleet.playbook("upgrade", "--extra-vars=upgrade_parts=extender,hook,agent")
    assert drivers(fleet) == dict.fromkeys(GPU_HOSTS, NOW)
    fleet.on("gpu2", "sh", "-c", f"cat > {REFUSAL_FILE} <<'END'\n{REFUSAL}\nEND")
    third = containers_on(fleet, "gpu3")
    with pytest.raises(PlaybookError, match="gpu2 runs what it ran before"):
        fleet.playbook("upgrade", DRIVER)
    assert drivers(fleet) == {"gpu1": NEXT, "gpu2": NOW, "gpu3": NOW}
    assert third <= containers_on(fleet, "gpu3")
    wait_for("all pods to run again", lambda: all_run(fleet), seconds=120)

    fleet.on("gpu2", "rm", REFUSAL_FILE)
    again = fleet.playbook("upgrade", DRIVER)
    assert again["gpu1"].changed == 0
    assert drivers(fleet) == dict.fromkeys(GPU_HOSTS, NEXT)
    wait_for("all pods to run again", lambda: all_run(fleet), seconds=120)

    fleet.playbook("rollback", DRIVER)
    assert drivers(fleet) == dict.fromkeys(GPU_HOSTS, NOW)
    wait_for("all pods to run again", lambda: all_run(fleet), seconds=120)
    assert cordoned == {frozenset(), *(frozenset({host}) for host in GPU_HOSTS)}
    for node in fleet.kubectl.items("nodes"):
        assert "unschedulable" not in node["spec"]
