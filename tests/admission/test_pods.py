"""Pods that ask for a GPU: how large they may be, and that the scheduler places them."""

import pytest

from gpustack.agent.kubelet import device_ids
from gpustack.model.node import Node
from gpustack.model.units import LARGEST_CARD_UNITS
from tests.admission.site import COSTLY, MIRROR, PLAIN, PODS, Json, Site, bind, notes, pod
from tests.control_plane import plane
from tests.control_plane.fleet import KEYS
from tests.model import machines
from tests.scheduling.cluster import container
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed


def test_a_pod_of_endless_annotations_takes_other_changes(
    site: Site, before: tuple[plane.ControlPlane, Json]
) -> None:
    old = before[1]["many"]
    assert site.patched(old, {"metadata": {"labels": {"any": "label"}}}) == ""
    assert site.patched(f"{old}/status", {"status": {"message": "any"}}) == ""
    assert f"there were {COSTLY}" in site.patched(old, notes(aaa=None))
    assert f"there were {COSTLY}" in site.patched(old, notes(**{KEYS.idx_prefix + "0": "1"}))
    assert f"there were {COSTLY}" in site.patched(
        f"{old}/status", notes(**{KEYS.gpu_retry: "1"}), site.extender
    )
    assert site.patched(before[1]["plain"], notes(aaa=None)) == ""


def test_a_gpu_pod_has_at_most_512_annotations(site: Site) -> None:
    written = {f"example.org/{at}": "" for at in range(513)}
    assert "metadata.annotations: there are 513" in site.denied(pod(annotations=written))
    assert site.denied(pod(PLAIN, annotations=written)) == ""
    del written["example.org/0"]
    assert site.denied(pod(annotations=written)) == ""


def test_a_decided_pod_takes_at_most_512_annotations(site: Site) -> None:
    path = site.pod()
    assert site.patched(f"{path}/status", notes(**{KEYS.gpu_retry: "1"}), site.extender) == ""
    buried = notes(**{f"example.org/{at}": "" for at in range(600)})
    assert "there are 601" in site.patched(path, buried)
    assert "annotations[example.org/" in site.patched(f"{path}/status", buried, site.extender)
    buried["metadata"]["annotations"][KEYS.gpu_retry] = None
    assert f"annotations[{KEYS.gpu_retry}]" in site.patched(path, buried)


def test_a_gpu_pod_of_512_annotations_is_decided_and_confirmed(site: Site) -> None:
    path = site.pod(**{f"example.org/{at}": "" for at in range(512)})
    assert site.patched(f"{path}/status", notes(**{KEYS.gpu_retry: "1"}), site.extender) == ""
    decided = {KEYS.predicate_time: "1", KEYS.predicate_node: "gpu1", KEYS.idx_prefix + "0": "0"}
    assert site.patched(f"{path}/status", notes(**decided), site.extender) == ""
    assert bind(site.extender, path, annotations={**decided, KEYS.gpu_assigned: "false"}) == ""
    assert site.patched(f"{path}/status", notes(**{KEYS.gpu_assigned: "true"}), site.node) == ""
    assert "there are 518" in site.patched(path, notes(**{"example.org/one": "more"}))
    assert site.patched(path, notes(**{"example.org/0": "changed"})) == ""
    assert site.patched(path, notes(**{"example.org/0": None})) == ""
    for key in (KEYS.gpu_retry, KEYS.idx_prefix + "0"):
        assert f"annotations[{key}]" in site.patched(path, notes(**{key: None}))


def test_too_many_annotations_are_no_sign_of_another_pod(site: Site) -> None:
    """The extender and the agent take a 422 as one: the UID that they write is another pod's."""
    written = {f"example.org/{at}": "" for at in range(513)}
    assert "403" in site.denied(pod(annotations=written))


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
def test_other_parts_of_a_pod_carry_no_annotation(site: Site, part: str) -> None:
    path = site.pod()
    site.patched(f"{path}/{part}", notes(**{KEYS.gpu_model: ",", KEYS.idx_prefix + "0": "0"}))
    assert site.admin.get(path)["metadata"].get("annotations", {}) == {}


def test_a_resize_changes_no_share(site: Site) -> None:
    asked = container("main", 50, 32)
    asked["resources"]["limits"]["cpu"] = "1"
    path = site.create(pod(asked))
    decided = {KEYS.predicate_node: "gpu1", KEYS.idx_prefix + "0": "0"}
    assert site.patched(f"{path}/status", notes(**decided), site.extender) == ""

    def resized(**limits: str) -> str:
        wanted = asked["resources"]["limits"] | limits
        sized = {"name": "main", "resources": {"limits": wanted, "requests": wanted}}
        body = notes(**dict.fromkeys(decided), **{KEYS.gpu_model: "T4"})
        return site.patched(f"{path}/resize", {**body, "spec": {"containers": [sized]}})

    assert resized(cpu="2") == ""
    after = site.admin.get(path)
    limits = after["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {KEYS.vcuda_core: "50", KEYS.vcuda_memory: "32", "cpu": "2"}
    assert after["metadata"]["annotations"] == decided
    for resource, said in ((KEYS.vcuda_core, "60"), (KEYS.vcuda_memory, "64")):
        assert "only cpu and memory resources are mutable" in resized(**{resource: said})


@pytest.mark.skipif(
    kubernetes.CURRENT is kubernetes.OLDER, reason="ResourceHealthStatus is off before 1.36"
)
def test_the_status_of_a_pod_may_name_every_id_of_a_node(site: Site) -> None:
    """Of 16 cards of 288 GiB, the largest that the agent's tests know."""
    cards, units = 16, 1152
    node = Node(name="n", cards=tuple(machines.card(at, units) for at in range(cards)), links=())
    held = {
        KEYS.vcuda_core: device_ids.core_ids(KEYS, node),
        KEYS.vcuda_memory: device_ids.memory_ids(KEYS, node),
    }
    path = site.create(pod(container("main", 100 * cards, units * cards)))
    health = [
        {"name": name, "resources": [{"resourceID": each.id, "health": "Healthy"} for each in ids]}
        for name, ids in held.items()
    ]
    status = {
        "name": "main",
        "image": "none",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "allocatedResourcesStatus": health,
    }
    assert site.patched(f"{path}/status", {"status": {"containerStatuses": [status]}}) == ""
    [kept] = site.admin.get(path)["status"]["containerStatuses"]
    assert kept["allocatedResourcesStatus"] == health


@pytest.mark.parametrize("cores", [50, 100, 300])
def test_memory_that_means_bytes_is_refused_with_the_unit(site: Site, cores: int) -> None:
    most = LARGEST_CARD_UNITS * max(1, cores // 100)
    for units in ("8Gi", str(most + 1)):
        asked = container("main", cores, most)
        asked["resources"]["limits"][KEYS.vcuda_memory] = units
        said = site.denied(pod(asked))
        assert f"limits[{KEYS.vcuda_memory}]: {units} is a number of units of 256 MiB" in said
        assert "for 8 GiB write 32" in said
    assert site.denied(pod(container("main", cores, most))) == ""


def test_the_memory_of_endless_cards_is_judged(site: Site) -> None:
    asked = container("main", 100, 32)
    for cores, units in (("1E", "32"), ("9E", "9E")):
        asked["resources"]["limits"] |= {KEYS.vcuda_core: cores, KEYS.vcuda_memory: units}
        assert site.denied(pod(asked)) == ""
    asked["resources"]["limits"] |= {KEYS.vcuda_core: "100", KEYS.vcuda_memory: "9E"}
    assert "9E is a number of units of 256 MiB" in site.denied(pod(asked))


def test_a_gpu_pod_has_at_most_64_containers(site: Site) -> None:
    plain = [{"name": f"c{at}", "image": "none"} for at in range(64)]
    gpu = container("main", 50, 32)
    assert "65 containers" in site.denied(pod(gpu, *plain))
    assert "65 containers" in site.denied(pod(gpu, *plain[:40], initContainers=plain[40:]))
    assert site.denied(pod(gpu, *plain[:63])) == ""
    assert site.denied(pod(PLAIN, *plain)) == ""


@pytest.mark.parametrize("cores", [0, 50])
def test_thousands_of_containers_are_judged_within_the_cost(site: Site, cores: int) -> None:
    few = [container(f"c{at}", cores, 32 if cores else 0) for at in range(3000)]
    said = site.denied(pod(*few, annotations={KEYS.gpu_model: ","}))
    # Of several policies that refuse, the API server names the one that it asked first.
    named = "3000 containers", f"annotations[{KEYS.gpu_model}]: has an empty name"
    assert any(text in said for text in named) == bool(cores)
    assert "cost" not in said


def test_thousands_of_mounts_are_refused_by_name(site: Site) -> None:
    volumes = [{"name": "any", "emptyDir": {}}]
    mounts = [{"name": "any", "mountPath": f"/data/{at}"} for at in range(5000)]
    one = container("main", 50, 32, volumeMounts=mounts)
    assert "5000 volumeMounts" in site.denied(pod(one, volumes=volumes))
    one["volumeMounts"] = mounts[:512]
    assert site.denied(pod(one, volumes=volumes)) == ""
    one["volumeMounts"][511] = {"name": "any", "mountPath": "/etc/vcuda"}
    assert "mountPath /etc/vcuda" in site.denied(pod(one, volumes=volumes))


def denied_with_a_volume(
    site: Site, cores: int, source: Json, **places: list[dict[str, str]]
) -> str:
    """Return why a container with the volume `any` is refused; empty where it isn't."""
    one = container("main", cores, 32 if cores < 100 else 0, **places)
    return site.denied(pod(one, volumes=[{"name": "any", **source}]))


@pytest.mark.parametrize(
    "path", ["/", "/etc", "//etc/", "/etc/.", "/etc/vcuda/hook", "/data/../x", "/proc/1/root/etc"]
)
def test_a_share_that_mounts_over_ours_or_above_is_refused(site: Site, path: str) -> None:
    def offered(cores: int, where: str) -> str:
        mounts = [{"name": "any", "mountPath": where}]
        return denied_with_a_volume(site, cores, {"emptyDir": {}}, volumeMounts=mounts)

    assert f"container main: volumeMounts: mountPath {path}: " in offered(50, path)
    assert offered(100, path) == ""
    for beside in ("/etc/foo", "/etc/hosts", "/etc/vcudata", "/data/etc", "/proc/meminfo"):
        assert offered(50, beside) == ""


@pytest.mark.parametrize("path", ["/etc/ld.so.preload", "/etc", "//etc/vcuda/x", "/proc/self/root"])
def test_a_share_whose_block_device_hides_ours_is_refused(site: Site, path: str) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "any"}}

    def offered(cores: int, where: str) -> str:
        devices = [{"name": "any", "devicePath": where}]
        return denied_with_a_volume(site, cores, claim, volumeDevices=devices)

    assert f"container main: volumeDevices: devicePath {path}: " in offered(50, path)
    assert offered(100, path) == ""
    for beside in ("/dev/sdx", "/etc/vcudata", "/proc/meminfo"):
        assert offered(50, beside) == ""


@pytest.mark.parametrize("path", ["/etc/ld.so.preload", "etc/vcuda/limits", "/run/../etc/vcuda/x"])
def test_a_share_whose_message_file_hides_ours_is_refused(site: Site, path: str) -> None:
    def offered(cores: int, where: str) -> str:
        memory = 32 if cores < 100 else 0
        return site.denied(pod(container("main", cores, memory, terminationMessagePath=where)))

    assert f"container main: terminationMessagePath {path}: " in offered(50, path)
    assert offered(100, path) == ""
    for beside in ("/dev/termination-log", "/etc/vcudata", ""):
        assert offered(50, beside) == ""


def test_a_gpu_pod_with_a_node_name_is_refused(site: Site) -> None:
    said = site.denied(pod(nodeName="gpu1"))
    assert "spec.nodeName: a pod that asks for a GPU must be scheduled" in said
    assert "nodeSelector" in said
    assert site.denied(pod(PLAIN, nodeName="gpu1")) == ""
    assert site.denied(pod(nodeName="gpu1"), site.placer) == ""


def test_a_daemon_sets_gpu_pod_is_created(site: Site) -> None:
    """Its controller names the node in the affinity, and the scheduler binds it."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert site.denied(pod(affinity={"nodeAffinity": required})) == ""


def test_a_node_mirrors_its_own_static_gpu_pods_only(site: Site) -> None:
    mirror = pod(nodeName="gpu1", annotations={MIRROR: "abc"})
    assert site.denied(mirror, site.node) == ""
    assert "spec.nodeName" in site.denied(mirror, site.other)
    assert "spec.nodeName" in site.denied(mirror)
    assert "spec.nodeName" in site.denied(pod(nodeName="gpu1"), site.node)


def test_a_node_gives_no_cards_to_its_static_pods(site: Site) -> None:
    """A node may make static pods in any namespace, and they would take the namespace's quota."""
    mirror = pod(nodeName="gpu1", annotations={MIRROR: "abc"})
    site.node.post(PODS, mirror)
    path = f"{PODS}/{mirror['metadata']['name']}/status"
    decided = notes(**{KEYS.predicate_node: "gpu1"})
    assert KEYS.predicate_node in site.patched(path, decided, site.node)
    assert "mirror" in site.patched(path, notes(**{MIRROR: None}), site.node)
    assert site.patched(path, {"status": {"phase": "Running"}}, site.node) == ""
    assert site.patched(path, decided, site.extender) == ""
