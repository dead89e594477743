"""What the original's configuration says of a node, as this agent carries it out."""

import json
import pathlib
from typing import Any

import pytest

from gpustack.agent.main import main
from gpustack.wire.nodes import MODEL_LABEL
from tests.agent.host import KEYS, NODE, Host, container, decision, make_pod
from tests.agent.host_files import DRIVER


def _configure(host: Host, **values: Any) -> None:
    host.configuration.update(values)


def _share(host: Host, name: str = "p", **annotations: str) -> Any:
    """Return the answer for a new share."""
    written = decision((1,), cores=10, memory=4) | annotations
    pod = host.create(make_pod(name, container("c0", 10, 4), annotations=written))
    return host.kubelet.admit(pod)["c0"]


def _nodes(answer: Any) -> list[str]:
    return [each.host_path for each in answer.devices]


@pytest.mark.parametrize("setting", ["env", "none"])
def test_a_pod_says_whether_it_gets_a_library_path(host: Host, setting: str) -> None:
    _configure(host, driver={"library_path": setting})
    host.start_agent()
    path = "/usr/local/nvidia/lib64"
    assert _share(host, "unsaid").envs.get("LD_LIBRARY_PATH") == (
        path if setting == "env" else None
    )
    key = KEYS.driver_path
    assert _share(host, "env", **{key: "env"}).envs["LD_LIBRARY_PATH"] == path
    assert "LD_LIBRARY_PATH" not in _share(host, "none", **{key: "none"}).envs


def test_a_driver_path_that_can_not_be_read_is_the_nodes(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.start_agent()
    answer = _share(host, **{KEYS.driver_path: "/opt/compat"})
    assert answer.envs["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert f"metadata.annotations[{KEYS.driver_path}]" in caplog.text


def test_the_node_keeps_its_labels(host: Host) -> None:
    labels = {"rack": "r7", MODEL_LABEL: "ignored", "example.org/pool": ""}
    _configure(host, node_labels=labels)
    host.start_agent()
    host.wait_until(host.agent.publisher.published.is_set)
    found = host.api.get("nodes", NODE)["metadata"]["labels"]
    assert found == {**labels, MODEL_LABEL: "NVIDIA-A100-SXM4-80GB"}


def test_extra_devices_come_from_the_originals_file_too(host: Host, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "extra-config.json"
    file.write_text(json.dumps({"default": {"devices": ["/dev/infiniband/uverbs0", "/dev/fuse"]}}))
    _configure(host, extra_config=str(file), extra_devices=["/dev/fuse"])
    host.start_agent()
    assert _nodes(_share(host))[-2:] == ["/dev/fuse", "/dev/infiniband/uverbs0"]


def test_the_driver_volume_has_the_files_of_the_originals_list(
    host: Host, tmp_path: pathlib.Path
) -> None:
    libraries = host.root / "lib"
    for stem in ("libvdpau_nvidia.so", "libnvidia-encode.so"):
        (libraries / f"{stem}.{DRIVER}").write_text(stem)
        (libraries / f"{stem}.1").symlink_to(f"{stem}.{DRIVER}")
        host.files.linker_cache += f"\n\t{stem}.1 (libc6,x86-64) => {libraries}/{stem}.1"
    names = ["libcuda.so", "libnvidia-ml.so", "libcuda-control.so", "libvdpau_nvidia.so"]
    file = tmp_path / "volume.conf"
    file.write_text(json.dumps({"volume": [{"components": {"libraries": names}}]}))
    _configure(host, driver={"volume_config": str(file)})
    host.start_agent()
    [mount] = [each for each in _share(host).mounts if each.container_path == "/usr/local/nvidia"]
    found = {each.name for each in (pathlib.Path(mount.host_path) / "lib64").iterdir()}
    assert "libvdpau_nvidia.so.1" in found
    assert "libnvidia-encode.so.1" not in found


def test_whole_cards_get_the_nodes_that_any_user_may_open(host: Host) -> None:
    devices = host.root / "dev"
    (devices / "nvidia-modeset").touch()
    (devices / "nvidia-caps").mkdir()
    for name, mode in (("nvidia-cap1", 0o400), ("nvidia-cap2", 0o444)):  # as the driver has them
        (devices / "nvidia-caps" / name).touch()
        (devices / "nvidia-caps" / name).chmod(mode)
    host.start_agent()
    whole = host.kubelet.admit(host.whole_card("big", minor=0))["c0"]
    assert _nodes(whole)[3:] == ["/dev/nvidia-modeset", "/dev/nvidia-caps/nvidia-cap2"]
    assert _nodes(_share(host)) == ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]


_BAD = {
    "extra_devices": (["/dev/../etc/shadow"], "extra_devices[0]: "),
    "extra_config": ("etc/extra.json", "extra_config: "),
    "driver": ({"library_path": "maybe"}, "driver.library_path: 'maybe' is not one of env, none"),
    "node_labels": ({"gaia.tencent.com/gpu-pool": "a"}, "node_labels: "),
    "sample_period_seconds": (0, "sample_period_seconds: 0 is less than 0.2"),
    "cri_timeout_seconds": (99, "cri_timeout_seconds: 99 is more than 30"),
    "cdi": ({"spec_dir": "run/cdi"}, "cdi.spec_dir: "),
    "virtual_manager": ({"serve": "maybe"}, "virtual_manager.serve: 'maybe' is not one of"),
}


@pytest.mark.parametrize("key", _BAD)
def test_a_bad_value_is_refused_by_its_path(
    host: Host, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value, problem = _BAD[key]
    host.settings()  # writes the file
    file = host.root / "agent.yml"
    kept = [line for line in file.read_text().splitlines() if f"{key}:" not in line]
    file.write_text("\n".join([*kept, f"            {key}: {json.dumps(value)}"]))
    assert main(["--config", str(file), "--check-config"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{file}: {problem}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "labels", [{"a b": "x"}, {"a": "b c"}, {"a": "x" * 64}, {"-a": "x"}, {"a": 7}, {"A/b": "x"}]
)
def test_a_label_that_no_node_can_have_is_refused(
    host: Host, labels: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    _configure(host, node_labels=labels)
    file = host.root / "agent.yml"
    host.write_configuration(file)
    assert main(["--config", str(file), "--check-config"]) == 2
    assert "node_labels" in capsys.readouterr().err


def test_a_broken_file_of_the_originals_ends_the_start_by_name(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = host.root / "extra-config.json"
    extra.write_text('{"default": {"devices": ["/etc/shadow"]}}')
    _configure(host, extra_config=str(extra))
    file = host.root / "agent.yml"
    host.write_configuration(file)
    assert main(["--config", str(file), "--check-config"]) == 2
    assert capsys.readouterr().err.startswith(f"{extra}: default.devices[0]: ")
