"""A host whose agent is installed keeps its domain and its folder."""

import pathlib

import pytest

from tests.ansible.preflight import preflight_host

pytestmark = pytest.mark.long


def agent_yml(domain: str = "tencent.com", state_dir: str = "/var/lib/gpustack") -> str:
    """Return what the role writes of these two."""
    return f'# ours\nnode_name: "gpu1"\ndomain: "{domain}"\nstate_dir: "{state_dir}"\n'


def check(folder: pathlib.Path, installed: str, **said: str) -> tuple[int, str]:
    """Run the check on a host with such an agent.yml, for what an inventory says now."""
    file = folder / "agent.yml"
    file.write_text(installed)
    return preflight_host.play(
        folder, "installed_agent", said,
        f"--extra-vars=__preflight_agent_configuration={file}",
    )  # fmt: skip


# Containers that run were given files in the folder, and the kubelet gives them again.
@pytest.mark.parametrize(
    ("variable", "said", "before"),
    [
        ("gpustack_agent_state_path", "/srv/gpustack", "/var/lib/gpustack"),
        ("gpustack_agent_domain", "x.test", "tencent.com"),
    ],
)
def test_a_value_that_pods_go_by_does_not_change(
    tmp_path: pathlib.Path, variable: str, said: str, before: str
) -> None:
    status, words = check(tmp_path, agent_yml(), **{variable: said})
    assert status != 0
    assert f"{variable} is {said}, and the agent of gpu1 was installed with {before}" in words


def test_an_agent_with_the_values_of_the_inventory_passes(tmp_path: pathlib.Path) -> None:
    said = {"gpustack_agent_domain": "x.test", "gpustack_agent_state_path": "/srv/gpustack"}
    status, words = check(tmp_path, agent_yml("x.test", "/srv/gpustack"), **said)
    assert status == 0, words


@pytest.mark.parametrize("content", ["", "\0" * 4096], ids=["empty", "zeros"])
def test_a_configuration_that_a_power_cut_emptied_is_no_obstacle(
    tmp_path: pathlib.Path, content: str
) -> None:
    status, words = check(tmp_path, content)
    assert status == 0, words


def test_a_host_without_an_agent_takes_any_value(tmp_path: pathlib.Path) -> None:
    status, words = preflight_host.play(
        tmp_path, "installed_agent", {"gpustack_agent_domain": "x.test"},
        f"--extra-vars=__preflight_agent_configuration={tmp_path}/missing.yml",
    )  # fmt: skip
    assert status == 0, words
