"""The walk through the demo: its commands are ours, and its shell has them."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml

from gpustack.cli.main import parser
from gpustack.wire.quota import parse_quota
from tests.cluster import opening
from tests.cluster.kubectl import Kubectl
from tests.cluster.rollout import Recap, log_of
from tests.cluster.site import Site
from tests.cluster.workloads import CUDA_IMAGE
from tests.demo.__main__ import environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/demo.md").read_text("utf-8")
LINES = [
    line
    for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
OURS = sorted(
    {found[1] for line in LINES if (found := re.match(r"(?:on-host \w+ )?gpustack (.*)", line))}
)
FAULTS = sorted(
    {found[1] for line in LINES if (found := re.match(r"on-host \w+ simgpu (\w+)", line))}
)
MANIFESTS = sorted({line.partition(" | ")[0] for line in LINES if line.startswith("sed ")})


def in_the_shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as `make demo-shell` would, elsewhere than in the checkout."""
    nowhere = pathlib.Path(os.devnull)
    return subprocess.run(
        ["bash", "--norc", "-c", command],
        env=environment(nowhere, nowhere),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_walk_has_commands_of_each_kind() -> None:
    assert len(OURS) >= 9
    assert len(MANIFESTS) == 2
    assert FAULTS == ["lose", "restore"]


@pytest.mark.parametrize("word", FAULTS)
def test_a_fault_of_the_walk_is_one_of_the_simulated_driver(word: str) -> None:
    program = (ROOT / "tests/simgpu/src/tools/simgpu.c").read_text("utf-8")
    assert f'"{word} MINOR ' in program


def test_the_walk_waits_for_no_pod_that_ignores_its_end() -> None:
    """`sleep infinity` as a container's first process hears no SIGTERM."""
    ends = [line for line in LINES if line.startswith("kubectl delete pod ")]
    assert ends
    assert all(line.endswith(" --now") for line in ends)


def test_the_demo_names_the_log_before_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(Site):
        def playbook(self, playbook: str, *_extra: str) -> dict[str, Recap]:
            assert str(log_of(self.name, playbook)) in capsys.readouterr().out
            return {}

    nowhere = pathlib.Path(os.devnull)
    kubectl = Kubectl(binary=nowhere, kubeconfig=nowhere)
    opening.roll_out(Silent(name="demo", state=nowhere, kubectl=kubectl))


@pytest.mark.parametrize("words", OURS)
def test_a_command_of_the_walk_is_one_of_ours(words: str) -> None:
    parser().parse_args(shlex.split(words))


@pytest.mark.parametrize("command", MANIFESTS)
def test_a_manifest_of_the_walk_has_an_image_of_the_hosts(command: str) -> None:
    shown = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    item = yaml.safe_load(shown.stdout)
    pod = item.get("spec", {}).get("template", item)
    [container] = pod["spec"]["containers"]
    assert container["image"] == CUDA_IMAGE
    assert container["command"] == ["sleep", "infinity"]


def test_the_quota_of_the_walk_holds_the_whole_card_back() -> None:
    [literal] = [word for line in LINES for word in shlex.split(line) if "gpu_quota=" in word]
    quota = parse_quota(literal.partition("gpu_quota=")[2]).namespaces
    assert dict(quota["research"].cards) == {"A100": 50}


def test_the_shell_of_the_demo_has_our_command() -> None:
    run = in_the_shell("gpustack help QuotaExceeded")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("QuotaExceeded: ")


def test_the_shell_of_the_demo_reaches_a_host() -> None:
    run = in_the_shell("on-host no-such-host true")
    assert run.returncode == 1
    assert "no-such-host" in run.stderr or "demo" in run.stderr
