"""One host gets all, after checks that change nothing, and is told its first pod."""

import os
import pathlib
import re
import sys
from typing import Any

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.playbooks import recorder
from tests.ansible.preflight.preflight_host import write_program

pytestmark = pytest.mark.long

BOX = {"kube_scheduler_manager": "own", "nvidia_driver_packages": []}
CARD = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'"
PAGE = layout.ROOT / "docs" / "onebox.md"


def play(
    folder: pathlib.Path, *, planes: dict[str, Any], gpus: dict[str, Any], smi: str = CARD
) -> recorder.Run:
    """Run onebox.yml on hosts whose nvidia-smi is this script."""
    write_program(folder, "nvidia-smi", smi)
    path = f"{folder / 'programs'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    groups = {"kube_control_plane": planes, "gpu_nodes": gpus}
    return recorder.play(
        folder, groups, playbook="playbooks/onebox.yml", settings={"PATH": path}
    )  # fmt: skip


def test_one_host_gets_all_and_is_told_the_pages_pod(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, planes={"box": BOX}, gpus={"box": {}})
    assert run.status == 0, run.output
    for role in ("cluster_objects", "gpustack_extender", "kube_scheduler", "gpustack_agent"):
        assert run.hosts(role) == ["box"]
        assert set(run.hosts(f"{role}/verify")) == {"box"}
    said = re.search(r"<<'END'\n(.*?)\n +END$", run.output, re.DOTALL | re.MULTILINE)
    shown = re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert said, run.output
    assert shown
    assert yaml.safe_load(said[1]) == yaml.safe_load(shown[1])


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "two-hosts": ({"planes": {"box": BOX, "other": BOX}, "gpus": {"box": {}}}, "wants one host"),
    "apart": ({"planes": {"other": BOX}, "gpus": {"box": {}}}, "wants one host"),
    "theirs": ({"planes": {"box": {}}, "gpus": {"box": {}}}, "kube_scheduler_manager own"),
    "no-driver": (
        {"planes": {"box": BOX}, "gpus": {"box": {}}, "smi": "exit 9"},
        "nvidia_driver_packages is [], and nvidia-smi names no card on box",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_box_is_refused_before_anything(tmp_path: pathlib.Path, fault: str) -> None:
    given, told = FAULTS[fault]
    run = play(tmp_path, **given)
    assert run.status != 0
    assert run.entries == []
    assert told in " ".join(run.output.split())


def test_a_driver_that_is_to_be_installed_is_not_asked(tmp_path: pathlib.Path) -> None:
    wanted = {**BOX, "nvidia_driver_packages": ["auto"]}
    run = play(tmp_path, planes={"box": wanted}, gpus={"box": {}}, smi="exit 9")
    assert run.status == 0, run.output
