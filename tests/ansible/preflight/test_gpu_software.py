"""Preflight sees other software that gives out the same cards, and names the cure."""

import pathlib
import re
from typing import Any

import pytest

from tests.ansible import api_server, layout, plugins
from tests.ansible.api_server import OFFICIAL, daemonset, node
from tests.ansible.preflight.preflight_host import play, write_program

filters = plugins.load("roles/preflight/filter_plugins/preflight_gpu_software.py")
accepting = plugins.load("roles/preflight/filter_plugins/preflight_accepted.py")

# The forms in which `containerd config dump` prints it: containerd 2 (configuration version 3), 1.3
# to 1.7 (version 2), and a file of version 1 with a runtime that has no name.
CONTAINERD_2 = """
version = 3
root = '/var/lib/containerd'
[plugins]
  [plugins.'io.containerd.cri.v1.images']
    snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.runtime']
    enable_cdi = true
    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      default_runtime_name = '{name}'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}]
          runtime_type = 'io.containerd.runc.v2'
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}.options]
            BinaryName = '{binary}'
"""
CONTAINERD_1 = """
disabled_plugins = []
version = 2
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.6"
    [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "{name}"
      [plugins."io.containerd.grpc.v1.cri".containerd.default_runtime]
        base_runtime_spec = ""
        runtime_type = ""
        [plugins."io.containerd.grpc.v1.cri".containerd.default_runtime.options]
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]
          runtime_type = "io.containerd.runc.v2"
          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}.options]
            BinaryName = "{binary}"
            SystemdCgroup = true
"""
CONTAINERD_0 = """
[plugins.cri.containerd.default_runtime]
  runtime_type = "io.containerd.runtime.v1.linux"
  [plugins.cri.containerd.default_runtime.options]
    BinaryName = "{binary}"
"""
# `crio config` makes comments of values that are defaults.
CRIO = """
[crio]
# root = "/var/lib/containers/storage"
[crio.runtime]
default_runtime = "{name}"
# no_pivot = false
[crio.runtime.runtimes.{name}]
runtime_path = "{binary}"
"""
DOCKER = '{{"DefaultRuntime": "{name}", "Runtimes": {{"{name}": {{"path": "{binary}"}}}}}}'
FORMS = [
    ("containerd", CONTAINERD_2),
    ("containerd", CONTAINERD_1),
    ("crio", CRIO),
    ("docker", DOCKER),
]
TOOLKIT = "/usr/bin/nvidia-container-runtime"
ENVIRONMENT = "accept-nvidia-visible-devices-envvar-when-unprivileged"
MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"


def names(findings: list[dict[str, str]]) -> list[str]:
    return [each["name"] for each in findings]


def runtime(program: str, text: str, *toolkit: str, rc: int = 0) -> list[dict[str, str]]:
    """Judge a runtime by its command's output."""
    command = {"cmd": [program, "config"], "rc": rc, "stdout": text, "stderr": "no such file"}
    found: list[dict[str, str]] = filters.runtime_findings(command, program, list(toolkit))
    return found


@pytest.mark.parametrize(("program", "form"), FORMS)
def test_nvidia_as_the_default_runtime_is_named(program: str, form: str) -> None:
    [found] = runtime(program, form.format(name="nvidia", binary=TOOLKIT))
    assert found["name"] == "nvidia-default-runtime"
    assert f"{program}'s default runtime is nvidia ({TOOLKIT})" in found["text"]
    assert f"{ENVIRONMENT} = false" in found["text"]


@pytest.mark.parametrize(("program", "form"), [*FORMS, ("containerd", CONTAINERD_0)])
def test_nvidia_behind_the_name_of_runc_is_named(program: str, form: str) -> None:
    [found] = runtime(program, form.format(name="runc", binary=TOOLKIT))
    assert found["name"] == "nvidia-default-runtime"


@pytest.mark.parametrize(("program", "form"), [*FORMS, ("containerd", CONTAINERD_0)])
def test_runc_as_the_default_runtime_is_sound(program: str, form: str) -> None:
    assert runtime(program, form.format(name="runc", binary="/usr/bin/runc")) == []
    assert runtime(program, form.format(name="runc", binary="")) == []


@pytest.mark.parametrize(
    ("toolkit", "found"),
    [
        ((), ["nvidia-default-runtime"]),
        (("[nvidia-container-cli]\nload-kmods = true\n",), ["nvidia-default-runtime"]),
        ((f"{ENVIRONMENT} = true\n",), ["nvidia-default-runtime"]),
        ((f"{ENVIRONMENT} = false\n",), []),
        ((f"{ENVIRONMENT} = false\n{MOUNTS} = true\n",), ["nvidia-default-runtime"]),
        ((f"{ENVIRONMENT} = false\n", f"{ENVIRONMENT} = true\n"), ["nvidia-default-runtime"]),
        ((f"{ENVIRONMENT} = false # \x00\n",), ["nvidia-default-runtime"]),
    ],
)
def test_only_a_toolkit_that_honours_images_counts(
    toolkit: tuple[str, ...], found: list[str]
) -> None:
    text = CONTAINERD_1.format(name="nvidia", binary=TOOLKIT)
    assert names(runtime("containerd", text, *toolkit)) == found


@pytest.mark.parametrize(("text", "rc"), [("", 1), ("= broken", 0), ("plugins = 3", 0)])
def test_a_runtime_that_does_not_answer_is_a_finding(text: str, rc: int) -> None:
    [found] = runtime("containerd", text, rc=rc)
    assert found["name"] == "unknown-runtime"
    assert "`containerd config` fails here" in found["text"]


def test_a_runtime_that_is_not_installed_is_a_finding() -> None:
    # as Ansible's command module says it
    command = {"cmd": "crio config", "rc": 2, "msg": "No such file or directory: b'crio'"}
    [found] = filters.runtime_findings(command, "crio", [])
    assert found["name"] == "unknown-runtime"
    assert "No such file" in found["text"]


@pytest.mark.parametrize(
    ("path", "our_agent", "found"),
    [
        ("device-plugins/nvidia-gpu.sock", True, ["nvidia-device-plugin"]),
        ("device-plugins/nvidia-mig-1g.5gb.sock", True, ["nvidia-device-plugin"]),
        # network cards of NVIDIA's, by the SR-IOV plugin: PREFIX_RESOURCE.sock
        ("plugins_registry/nvidia.com_hostdev.sock", True, []),
        ("plugins_registry/gpu.nvidia.com-reg.sock", True, ["nvidia-dra-driver"]),
        ("device-plugins/vcore.sock", False, ["gpu-manager"]),
        ("device-plugins/vcore.sock", True, []),
    ],
)
def test_a_plugin_is_known_by_its_socket(path: str, our_agent: bool, found: list[str]) -> None:
    path = f"/var/lib/kubelet/{path}"
    findings = filters.socket_findings([path], our_agent=our_agent)
    assert names(findings) == found
    assert all(path in each["text"] for each in findings)


def test_a_finding_that_the_site_accepts_is_left_out() -> None:
    findings = filters.socket_findings(["/x/nvidia-gpu.sock"], our_agent=True)
    assert accepting.unaccepted(findings, ["gpu-manager"])
    assert accepting.unaccepted(findings, ["nvidia-device-plugin"]) == []


def test_every_finding_can_be_accepted_and_is_documented() -> None:
    tasks = [each.read_text("utf-8") for each in layout.ROOT.glob("roles/*/tasks/*.yml")]
    asked = re.findall(r"'([a-z-]+)' in preflight_accepted_findings", "\n".join(tasks))
    assert asked == ["gpu-admission-account"]
    assert sorted(accepting.KINDS) == sorted([*filters.TEXTS, *asked])
    text = (layout.ROOT / "docs" / "operations.md").read_text("utf-8")
    assert all(f"| `{name}` |" in text for name in accepting.KINDS)


@pytest.mark.nightly
@pytest.mark.long
def test_preflight_fails_on_a_host_with_nvidias_plugin_and_runtime(tmp_path: pathlib.Path) -> None:
    kubelet = tmp_path / "kubelet"
    (kubelet / "device-plugins").mkdir(parents=True)
    (kubelet / "device-plugins" / "nvidia-gpu.sock").touch()
    dump = CONTAINERD_2.format(name="nvidia", binary=TOOLKIT)
    answer = f"[ \"$*\" = 'config dump' ] && cat <<'end'\n{dump}\nend"
    write_program(tmp_path, "containerd", answer)
    variables: dict[str, Any] = {"gpustack_agent_kubelet_path": str(kubelet)}
    status, words = play(tmp_path, "gpu_software", variables)
    assert status != 0
    for wanted in ("nvidia-device-plugin: ", "nvidia-default-runtime: ", "preflight_accepted_find"):
        assert wanted in words
    variables["preflight_accepted_findings"] = ["nvidia-device-plugin", "nvidia-default-runtime"]
    status, words = play(tmp_path, "gpu_software", variables)
    assert status == 0, words


@pytest.mark.long
def test_managed_fields_that_a_tenant_wrote_stop_no_preflight(tmp_path: pathlib.Path) -> None:
    tenants = daemonset("logs", "logs:1")
    for written in (tenants, other := node("gpu1", {})):
        written["metadata"]["managedFields"] = [{"fieldsV1": api_server.ENDLESS}]
    with api_server.serving(tmp_path, {"nodes": [other], "daemonsets": [tenants]}) as kubeconfig:
        variables: dict[str, Any] = {
            "cluster_objects_kubeconfig": str(kubeconfig),
            "preflight_gpu_hosts": ["gpu1"],
            "gpustack_agent_node_name": "gpu1",
        }
        status, words = play(tmp_path, "cluster", variables)
        assert status == 0, words


@pytest.mark.long
def test_preflight_fails_on_a_cluster_with_nvidias_plugin(tmp_path: pathlib.Path) -> None:
    objects = {
        "nodes": [node("node-1", {}, nvidia_gpu="8")],
        "daemonsets": [daemonset("nvidia-device-plugin-daemonset", OFFICIAL)],
        "runtimeclasses": [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}],
    }
    with api_server.serving(tmp_path, objects) as kubeconfig:
        variables: dict[str, Any] = {
            "cluster_objects_kubeconfig": str(kubeconfig),
            "preflight_gpu_hosts": ["gpu1"],
            "gpustack_agent_node_name": "node-1",
        }
        status, words = play(tmp_path, "cluster", variables)
        assert status != 0
        assert "node node-1 offers 8 nvidia.com/gpu" in words
        assert "DaemonSet kube-system/nvidia-device-plugin-daemonset runs on our GPU" in words
        assert "RuntimeClass nvidia has the handler nvidia" in words
        variables["preflight_accepted_findings"] = [
            "nvidia-device-plugin",  # what the node offers
            "nvidia-device-plugin/kube-system/nvidia-device-plugin-daemonset",
            "nvidia-runtime-class",
        ]
        status, words = play(tmp_path, "cluster", variables)
        assert status == 0, words
