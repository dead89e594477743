"""Shares of GPU time, on the simulated card's time line, through real kubelet and containerd."""

import collections.abc
import json
import re
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster import workloads
from tests.cluster.kubectl import KubectlError, annotations, is_running, wait_for
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

SECONDS = 60
KERNEL_US = 10_000
POINTS = 3.0
LIMIT = "tencent.com/vcuda-core-limit"
POLICY = "gpustack-requests"
READ_METRICS = (
    "import urllib.request as r; print(r.urlopen('http://127.0.0.1:5678/metrics').read().decode())"
)
ADVICE = "choose another mountPath"

# What a tenant would put over its share: files of its own.
OVER_OURS = {
    "a folder over the limits": {"mountPath": "/etc/vcuda"},
    "the folder above the limits": {"mountPath": "/etc"},
    "a file over the limits": {"mountPath": "/etc/vcuda/limits", "subPath": "limits"},
    "a file over the preload": {"mountPath": "/etc/ld.so.preload", "subPath": "preload"},
}
over_ours = pytest.mark.parametrize("mount", OVER_OURS.values(), ids=OVER_OURS)


def share(cores: int) -> dict[str, str]:
    return {workloads.CORE: str(cores), workloads.MEMORY: "16"}


def launching(seconds: int) -> list[str]:
    return ["cuda-workload", "--kernel-us", str(KERNEL_US), "--seconds", str(seconds)]


def used_percent(printed: str) -> float:
    """Return the GPU time of what was launched, as a share of the time that it took."""
    done = json.loads(printed.splitlines()[-1])
    assert done["result"] == "CUDA_SUCCESS", printed
    return float(done["launches"] * done["kernel_us"] / done["seconds"] / 1e4)


def mounting(name: str, mount: dict[str, str]) -> dict[str, Any]:
    """Return a pod with a share that mounts a ConfigMap there."""
    volumes = [{"name": "own", "configMap": {"name": "own"}}]
    pod = workloads.pod(name, share(30), volumes=volumes)
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", **mount}]
    return pod


@pytest.fixture
def own_files(site: Site) -> collections.abc.Iterator[None]:
    """Make the ConfigMap of ``mounting``."""
    data = {"limits": "none", "preload": ""}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": data}
    site.kubectl.apply(made)
    yield
    site.kubectl.delete("configmap", "own")


def is_refused(site: Site, pod: dict[str, Any]) -> bool:
    """Whether the API server takes no such pod; it is asked without making one."""
    try:
        site.kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    except KubectlError:
        return True
    return False


@pytest.fixture
def without_policy(site: Site, own_files: None) -> collections.abc.Iterator[None]:
    """Let the API server admit everything, as one before 1.30 does."""
    binding = f"validatingadmissionpolicybinding/{POLICY}"
    saved = site.kubectl.get(binding)
    kept = {key: saved["metadata"][key] for key in ("name", "annotations")}
    pod = mounting("asked", OVER_OURS["a folder over the limits"])
    site.kubectl.delete(binding)
    try:
        wait_for("the policy to be off", lambda: not is_refused(site, pod))
        yield
    finally:
        site.kubectl.create({**saved, "metadata": kept})
        wait_for("the policy to be on again", lambda: is_refused(site, pod))


def place_of(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["spec"]["nodeName"], annotations(pod)["tencent.com/predicate-gpu-idx-0"]


def accounts(site: Site, host: str, namespace: str) -> dict[str, float]:
    """Return an agent's figures, of all its cards and namespaces together, by metric.

    They are read once the agent has counted for that namespace: energy last.
    """
    energy = re.compile(rf'namespace_energy_joules_total\{{[^}}]*namespace="{namespace}"')

    def counted() -> str:
        text = site.on(host, "/opt/gpustack/venv/bin/python", "-c", READ_METRICS)
        return text if energy.search(text) else ""

    text = wait_for("the namespace to be counted", counted)
    return {
        sample.name: sum(each.value for each in family.samples if each.name == sample.name)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def neighbour(site: Site) -> collections.abc.Iterator[str]:
    """Give another namespace."""
    site.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "next"}})
    yield "next"
    site.kubectl.delete("namespace", "next")


def test_two_tenants_get_their_shares_of_one_card_and_account_for_it(
    site: Site, neighbour: str
) -> None:
    shares, namespaces = {"less": 30, "more": 70}, {"less": "default", "more": neighbour}
    for name, cores in shares.items():
        # Ahead: how soon a program wakes up on a busy host is not what is measured.
        command = [*launching(SECONDS), "--ahead", "--hold"]
        pod = workloads.pod(name, share(cores), command)
        pod["metadata"]["namespace"] = namespaces[name]
        site.kubectl.apply(pod)
    places = {place_of(site.running(name, namespace=namespaces[name])) for name in shares}
    assert len(places) == 1, "they are on one card"
    [(host, _)] = places
    before = accounts(site, host, neighbour)

    def finished() -> dict[str, str]:
        logs = {name: site.kubectl.run("logs", name, "-n", namespaces[name]) for name in shares}
        return logs if all("launches" in text for text in logs.values()) else {}

    printed = wait_for("both to have launched for a minute", finished, seconds=3 * SECONDS)
    after = accounts(site, host, neighbour)
    used = {name: used_percent(text) for name, text in printed.items()}
    assert used == pytest.approx(shares, abs=POINTS)

    def gained(of: str, counter: str) -> float:
        name = f"gpustack_{of}_{counter}_total"
        return after[name] - before[name]

    joules = {of: gained(of, "energy_joules") for of in ("namespace", "card_idle", "card")}
    assert joules["namespace"] > joules["card_idle"]
    assert joules["namespace"] + joules["card_idle"] == pytest.approx(joules["card"], rel=1e-6)
    # Both hold all of one of two cards.
    assert gained("namespace", "gpu_seconds") == (
        pytest.approx(gained("card_idle", "gpu_seconds"), rel=0.01)
    )


def test_a_changed_ceiling_holds_within_two_seconds(site: Site) -> None:
    site.kubectl.apply(workloads.pod("elastic", share(30)))
    site.running("elastic")

    def use() -> float:
        return used_percent(site.kubectl.execute("elastic", *launching(1)))

    assert use() < 50, "nothing allows it more than its share"
    site.kubectl.run("annotate", "pod", "elastic", f"{LIMIT}=100")
    changed = time.monotonic()
    while (found := use()) < 80:
        assert time.monotonic() - changed < 10, f"it gets {found:.0f} % still"
    # What was seen began a second and the start of a process before it was seen.
    assert time.monotonic() - changed < 2 + 2


@over_ours
@pytest.mark.usefixtures("own_files")
def test_a_pod_that_mounts_over_its_share_is_not_made(site: Site, mount: dict[str, str]) -> None:
    with pytest.raises(KubectlError) as refused:
        site.kubectl.create(mounting("hiding", mount))
    assert f"container vcuda-test: volumeMounts: mountPath {mount['mountPath']}: " in str(
        refused.value
    )
    assert ADVICE in str(refused.value)
    assert site.kubectl.items("pods") == []


@over_ours
@pytest.mark.usefixtures("without_policy")
def test_a_pod_that_mounts_over_its_share_fails_without_the_policy_too(
    site: Site, mount: dict[str, str]
) -> None:
    site.kubectl.apply(mounting("hiding", mount))

    def ended() -> dict[str, Any]:
        seen = site.kubectl.get("pod", "hiding")
        assert not is_running(seen), "it runs with its own files over ours"
        return seen if seen["status"]["phase"] == "Failed" else {}

    pod = wait_for("the pod to be failed", ended)
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert not pod["status"].get("containerStatuses"), "no container was ever made"
    described = site.kubectl.run("describe", "pod", "hiding")
    assert f"HiddenPath: container 'vcuda-test', volumeMounts {mount['mountPath']}: " in described
    assert "choose another path" in described


def reported(site: Site, pod: str) -> set[str]:
    """Return the reasons of what the agent says of a pod's ways out of its share."""
    selected = f"--field-selector=involvedObject.name={pod}"
    reasons = {event["reason"] for event in site.kubectl.items("events", selected)}
    return reasons & {"UnhookedProcess", "ForeignLimits", "LedgerDamaged"}


def test_a_container_that_replaces_our_files_is_reported(site: Site) -> None:
    commands = {"honest": ["cuda-workload", "--hold"], "moving": ["sh", "-c", workloads.MOVING]}
    for name, command in commands.items():
        site.kubectl.apply(workloads.pod(name, share(10), command))
    for name in commands:
        site.running(name)
    wait_for("the report", lambda: reported(site, "moving"))
    assert {name: reported(site, name) for name in commands} == {
        "honest": set(),
        "moving": {"ForeignLimits"},
    }
