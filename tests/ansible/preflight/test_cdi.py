"""Preflight refuses a host without CDI where the inventory wants it, before anything changes."""

import pathlib
import re
from typing import Any

import pytest

from gpustack.adapters.cri import cdi
from gpustack.agent.cdi import support
from tests.ansible import plugins
from tests.ansible.preflight.preflight_host import play, write_program

filters = plugins.load("roles/preflight/filter_plugins/preflight_cdi.py")

V3 = """version = 3
[plugins.'io.containerd.cri.v1.runtime']
  {key}
  cdi_spec_dirs = ['/etc/cdi', '/run/cdi']
"""
V2 = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  {key}
"""
DIRS = 'cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]'


def problems(kubelet: str, runtime: str, dump: str = "", folder: str = "/var/run/cdi") -> str:
    info = {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime}
    node = {"status": {"nodeInfo": info}}
    return "; ".join(filters.cdi_problems(node, {"stdout": dump}, folder))


@pytest.mark.parametrize(
    ("runtime", "dump"),
    [
        ("containerd://1.7.24", V2.format(key=f"enable_cdi = true\n{DIRS}")),
        ("containerd://2.0.1", V3.format(key="enable_cdi = true")),
        ("containerd://2.4.0", V3.format(key="")),
        ("containerd://2.1.4-k3s2", ""),  # its containerd isn't in the PATH: the agent asks
        ("containerd://2.1.4", "not = [toml"),
        ("cri-o://1.29.1", ""),
        ("cri-o://1.29.1", '[crio.runtime]\n# cdi_spec_dirs = [\ndefault_runtime = "crun"'),
    ],
)
def test_a_host_with_cdi_passes(runtime: str, dump: str) -> None:
    assert problems("v1.29.0", runtime, dump) == ""


@pytest.mark.parametrize(
    ("kubelet", "runtime", "dump", "why"),
    [
        ("v1.28.9+k3s1", "cri-o://1.28.0", "", r"its kubelet is v1.28.9\+k3s1, and passes .* 1.29"),
        ("v1.31.0", "containerd://1.6.20~ds1", V2.format(key=""), "takes no CDI .* to 1.7.2"),
        ("v1.31.0", "cri-o://1.27.8", "", "takes no CDI devices .* upgrade to 1.28.0"),
        ("v1.31.0", "docker://27.0.1", "", "its runtime docker isn't known"),
        ("v1.31.0", "containerd://1.7.9", V2.format(key=f"enable_cdi = false\n{DIRS}"), "CDI off"),
        ("v1.31.0", "", V2.format(key="sandbox_image = 'a'"), "its containerd has CDI off"),
    ],
)
def test_a_host_without_cdi_is_told_what_to_do(
    kubelet: str, runtime: str, dump: str, why: str
) -> None:
    assert re.search(why, problems(kubelet, runtime, dump))


def test_the_folder_must_be_one_of_the_runtimes() -> None:
    dump = V3.format(key="")
    assert problems("v1.31.0", "containerd://2.4.0", dump, "/run/cdi/") == ""
    assert "reads no CDI specs in /opt/cdi" in problems(
        "v1.31.0", "containerd://2.4.0", dump, "/opt/cdi"
    )


def test_so_for_cri_o() -> None:
    dump = '[crio.runtime]\ncdi_spec_dirs = ["/opt/cdi"]'
    assert problems("v1.31.0", "cri-o://1.31.0", dump, "/opt/cdi") == ""
    assert "reads no CDI specs in /var/run/cdi" in problems("v1.31.0", "cri-o://1.31.0", dump)


def test_preflight_and_agent_know_the_same_versions() -> None:
    assert filters.RUNTIMES == cdi._OLDEST
    assert filters.KUBELET == support._OLDEST_KUBELET


@pytest.mark.long
@pytest.mark.parametrize("wanted", [True, False])
def test_preflight_fails_on_a_host_without_cdi(tmp_path: pathlib.Path, wanted: bool) -> None:
    dump = V2.format(key=f"enable_cdi = false\n{DIRS}")
    write_program(tmp_path, "containerd", f"cat <<'end'\n{dump}\nend")
    variables: dict[str, Any] = {
        "gpustack_agent_kubelet_path": str(tmp_path),
        "gpustack_agent_cdi": wanted,
    }
    status, words = play(tmp_path, "gpu_software", variables)
    assert (status != 0) is wanted, words
    if wanted:
        assert "gpu1 has no CDI: its containerd has CDI off; set enable_cdi = true" in words
