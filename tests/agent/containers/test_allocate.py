"""Allocate: a container gets its decided cards, and bad requests are refused."""

import re

import pytest

from gpustack.adapters import mapped
from gpustack.model.request import ContainerKind
from tests.agent.host import CORE, KEYS, MEMORY, Host, card_of, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import card

GIB = 1024**3


@pytest.mark.parametrize("memory_first", [False, True])
def test_a_share_gets_its_card_the_driver_and_its_limits(host: Host, memory_first: bool) -> None:
    host.start_agent()
    pod = host.create(
        make_pod("p", container("c0", 50, 32), annotations=decision((1,), cores=50, memory=32))
    )
    response = host.kubelet.admit(pod, memory_first=memory_first)["c0"]
    assert [(node.host_path, node.permissions) for node in response.devices] == [
        ("/dev/nvidia1", "rw"),
        ("/dev/nvidiactl", "rw"),
        ("/dev/nvidia-uvm", "rw"),
    ]
    assert dict(response.envs) == {
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        "NVIDIA_VISIBLE_DEVICES": card(1).uuid,
    }
    mounts = {mount.container_path: (mount.host_path, mount.read_only) for mount in response.mounts}
    folder, hook = host.folder(pod, "c0"), host.hook
    assert mounts == {
        "/usr/local/nvidia": (str(host.state / "driver" / "535.261.03"), True),
        "/etc/ld.so.preload": (str(hook / "ld.so.preload"), True),
        "/etc/vcuda/hook": (str(hook), True),
        "/etc/vcuda/limits": (str(folder / "limits"), True),
        "/etc/vcuda/activity": (str(folder / "activity"), True),
        "/etc/vcuda/ledger": (str(folder / "ledger"), False),
    }
    assert dict(response.annotations) == {
        KEYS.vcuda_core: "50",
        KEYS.vcuda_memory: str(8 * GIB),
        KEYS.vcuda_device: "/dev/nvidia1",
        KEYS.vcuda_pod_uid: pod["metadata"]["uid"],
    }
    limit = mapped.read_limits(folder / "limits").devices[0]
    assert (limit.uuid, limit.memory_bytes, limit.compute_percent) == (card(1).uuid, 8 * GIB, 50)
    assert limit.burst_percent == 50
    assert (folder / "ledger").stat().st_mode & 0o777 == 0o666


def test_whole_cards_get_devices_and_driver_and_nothing_else(host: Host) -> None:
    host.start_agent()
    pod = host.create(
        make_pod("p", container("c0", 200), annotations=decision((0, 1), cores=200, memory=0))
    )
    response = host.kubelet.admit(pod)["c0"]
    assert [node.host_path for node in response.devices][:2] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert [mount.container_path for mount in response.mounts] == ["/usr/local/nvidia"]
    assert not host.folder(pod, "c0").exists()


def test_profilers_get_uvm_tools_where_the_host_has_them(host: Host) -> None:
    (host.root / "dev" / "nvidia-uvm-tools").touch()
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 100)))
    devices = host.kubelet.admit(pod)["c0"].devices
    assert devices[-1].host_path == "/dev/nvidia-uvm-tools"


def test_an_undecided_pod_is_placed_and_annotated(host: Host) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    response = host.kubelet.admit(pod)["c0"]
    assert response.devices[0].host_path == "/dev/nvidia0"
    host.wait_until(lambda: KEYS.predicate_time in host.annotations(pod))
    told = host.annotations(pod)
    assert told["tencent.com/predicate-gpu-idx-0"] == "0"
    assert told[KEYS.gpu_assigned] == "false"


@pytest.mark.parametrize("spared", [{}, {KEYS.gpu_assigned: "false"}, {KEYS.gpu_retry: "1"}])
def test_an_undecided_pod_is_refused_by_default(host: Host, spared: dict[str, str]) -> None:
    host.place_undecided = False
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 50, 32), annotations=spared))
    with pytest.raises(AdmissionError, match=r"Undecided: pod default/p: .*place_undecided: true"):
        host.kubelet.admit(pod)
    assert host.agent.records.all() == ()


def test_an_undecided_static_pod_takes_no_card_from_others(host: Host) -> None:
    """A static pod starts without cards, and its node doesn't tell the extender about it."""
    host.start_agent()
    mirrored = {"kubernetes.io/config.mirror": "0123"}
    static = host.create(make_pod("p", container("c0", 100), annotations=mirrored))
    with pytest.raises(AdmissionError, match=r"Undecided: pod default/p: a static pod"):
        host.kubelet.admit(static)
    assert host.agent.records.all() == ()


def test_a_pod_that_the_original_decided_needs_no_extender(host: Host) -> None:
    """The original's extender writes no UUIDs, its manager neither node nor time."""
    host.place_undecided = False
    host.start_agent()
    by_extender = decision((1,), cores=50, memory=32)
    del by_extender[KEYS.uuid(ContainerKind.APP, 0)]
    by_manager = {KEYS.idx(ContainerKind.APP, 0): "1", KEYS.gpu_assigned: "true"}
    for name, written in (("extender", by_extender), ("manager", by_manager)):
        pod = host.create(make_pod(name, container("c0", 50, 32), annotations=written))
        assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


@pytest.mark.parametrize("key", ["gpu-topology", "gpu-model"])
def test_a_bad_user_key_refuses_an_undecided_pod(host: Host, key: str) -> None:
    host.start_agent()
    written = {f"{KEYS.domain}/{key}": "," * 250_000}
    pod = host.create(make_pod("p", container("c0", 50, 32), annotations=written))
    with pytest.raises(AdmissionError, match=rf"BadRequest: pod default/p: .*{key}") as caught:
        host.kubelet.admit(pod)
    assert len(str(caught.value)) < 400


def test_an_undecided_pod_leaves_reserved_cards_alone(host: Host) -> None:
    host.start_agent()
    host.create(
        make_pod("later", container("c0", 100), annotations=decision((0,), cores=100, memory=0))
    )
    pod = host.create(make_pod("now", container("c0", 50, 32)))
    assert host.kubelet.admit(pod)["c0"].devices[0].host_path == "/dev/nvidia1"


@pytest.mark.usefixtures("short_wait")
def test_a_decision_for_a_card_that_is_taken_is_refused_by_name(host: Host) -> None:
    host.start_agent()
    for name in ("a", "b"):
        host.create(
            make_pod(name, container("c0", 60, 32), annotations=decision((0,), cores=60, memory=32))
        )
    host.kubelet.admit(host.api.get("pods", "a"))
    with pytest.raises(AdmissionError, match=r"InsufficientCore: .*card 0 has 40 cores"):
        host.kubelet.admit(host.api.get("pods", "b"))


def test_a_decision_for_a_renumbered_card_is_refused_by_name(host: Host) -> None:
    host.start_agent()
    written = decision((0,), cores=50, memory=32)
    written["tencent.com/predicate-gpu-uuid-0"] = card(1).uuid
    pod = host.create(make_pod("p", container("c0", 50, 32), annotations=written))
    with pytest.raises(AdmissionError, match="CardRenumbered"):
        host.kubelet.admit(pod)


def test_a_decision_that_a_user_wrote_by_halves_is_refused_by_name(host: Host) -> None:
    host.start_agent()
    pod = host.create(
        make_pod("p", container("c0", 50, 32), annotations={"tencent.com/predicate-gpu-idx-0": "0"})
    )
    with pytest.raises(AdmissionError, match=r"BadAnnotation: .*predicate-time: is missing"):
        host.kubelet.admit(pod)


@pytest.mark.parametrize(
    ("cores", "memory", "text"),
    [(150, 32, "neither a share"), (50, 0, "needs memory"), (0, 32, "without compute")],
)
def test_an_impossible_request_is_refused_with_its_field(
    host: Host, cores: int, memory: int, text: str
) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", cores, memory)))
    with pytest.raises(AdmissionError, match=rf"BadRequest: pod default/p: .*limits.*{text}"):
        host.kubelet.admit(pod)


def test_a_refusal_is_one_line_whatever_the_pod_names(host: Host) -> None:
    host.start_agent()
    mounts = [{"name": "v", "mountPath": "/etc/vcuda/a\n<3>b"}]
    pod = host.create(make_pod("p", container("c0", 50, 32, volumeMounts=mounts)))
    with pytest.raises(AdmissionError, match=r"volumeMounts /etc/vcuda/a\\n<3>b: "):
        host.kubelet.admit(pod)


_HIDING = [
    "/etc/vcuda",
    "/usr/local/nvidia/lib64",
    "/etc/../usr/local/nvidia/lib64",
    "//etc/vcuda/",
]
_ABOVE = ["/", ".", "/etc", "//etc/", "/etc/.", "/data/../x"]


@pytest.mark.parametrize("path", [*_HIDING, *_ABOVE])
def test_a_mount_that_would_hide_ours_is_refused(host: Host, path: str) -> None:
    host.start_agent()
    mounts = [{"name": "v", "mountPath": each} for each in ("/data", path)]
    pod = host.create(make_pod("p", container("c0", 50, 32, volumeMounts=mounts)))
    named = rf"HiddenPath: container 'c0', volumeMounts {re.escape(path)}: "
    with pytest.raises(AdmissionError, match=named):
        host.kubelet.admit(pod)


def test_mounts_beside_ours_are_allowed(host: Host) -> None:
    host.start_agent()
    paths = ("/etc/foo", "/etc/hosts", "/etc/resolv.conf", "/data/etc", "/etc/vcudata", "/data...")
    mounts = [{"name": "v", "mountPath": path} for path in paths]
    host.kubelet.admit(host.create(make_pod("p", container("c0", 50, 32, volumeMounts=mounts))))


def test_a_whole_card_may_be_mounted_above_the_paths_of_shares(host: Host) -> None:
    host.start_agent()

    def admit(name: str, *paths: str) -> None:
        mounts = [{"name": "v", "mountPath": path} for path in paths]
        pod = host.create(make_pod(name, container("c0", 100, volumeMounts=mounts)))
        host.kubelet.admit(pod)

    admit("above", *_ABOVE)
    with pytest.raises(AdmissionError, match=r"HiddenPath: .* /usr/local/nvidia/lib64: "):
        admit("driver", *_ABOVE, "/usr/local/nvidia/lib64")


def test_a_share_without_an_installed_hook_is_refused(host: Host) -> None:
    host.start_agent()
    (host.hook / "libvcuda.so").unlink()
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    with pytest.raises(AdmissionError, match="HostIncomplete: no hook"):
        host.kubelet.admit(pod)


def test_a_missing_device_node_is_named(host: Host) -> None:
    host.start_agent()
    (host.root / "dev" / "nvidia-uvm").unlink()
    pod = host.create(make_pod("p", container("c0", 100)))
    with pytest.raises(AdmissionError, match="HostIncomplete: /dev/nvidia-uvm missing"):
        host.kubelet.admit(pod)


def test_every_container_of_a_pod_gets_its_own_card(host: Host) -> None:
    host.start_agent()
    pod = host.create(
        make_pod(
            "p",
            container("c0", 50, 32),
            container("c1", 50, 32),
            annotations=decision((1,), (0,), cores=50, memory=32),
        )
    )
    responses = host.kubelet.admit(pod, memory_first=True)
    assert responses["c0"].devices[0].host_path == "/dev/nvidia1"
    assert responses["c1"].devices[0].host_path == "/dev/nvidia0"


def test_an_init_container_uses_the_cards_of_its_pod(host: Host) -> None:
    host.start_agent()
    pod = host.create(
        make_pod(
            "p",
            container("c0", 50, 32),
            init=(container("prepare", 50, 32),),
            annotations=decision((1,), cores=50, memory=32),
        )
    )
    responses = host.kubelet.admit(pod)
    assert responses["prepare"].devices[0].host_path == "/dev/nvidia1"
    assert responses["c0"].devices[0].host_path == "/dev/nvidia1"
    for name in ("prepare", "c0"):
        host.kubelet.start_container(pod, name, CORE)
        assert (host.folder(pod, name) / "limits").exists()


def test_the_burst_ceiling_reaches_a_running_container(host: Host) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 50, 32), annotations={KEYS.core_limit: "70"}))
    host.kubelet.admit(pod)
    limits = host.folder(pod, "c0") / "limits"
    inode = limits.stat().st_ino
    assert mapped.read_limits(limits).devices[0].burst_percent == 70
    host.api.edit("pods", "p", {"metadata": {"annotations": {KEYS.core_limit: "90"}}})
    host.wait_until(lambda: mapped.read_limits(limits).devices[0].burst_percent == 90)
    assert limits.stat().st_ino == inode, "a mounted file does not follow a rename"


def test_device_ids_count_cores_and_memory_units_with_numa_nodes(host: Host) -> None:
    host.start_agent()
    cores = host.kubelet.plugins[CORE].lists[-1]
    memory = host.kubelet.plugins[MEMORY].lists[-1]
    assert [device.ID for device in cores[:2]] == [f"{CORE}-0", f"{CORE}-1"]
    assert len(cores) == 200
    assert f"{MEMORY}-268435456-0" == memory[0].ID
    assert len(memory) == 2 * 80 * 4
    assert {node.ID for device in memory for node in device.topology.nodes} == {0}
