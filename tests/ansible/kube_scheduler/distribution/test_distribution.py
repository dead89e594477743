"""k3s and RKE2 get files that name our configuration, and lose them again."""

import base64
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.ansible.kube_scheduler.distribution.distribution_host import DistributionHost
from tests.ansible.kube_scheduler.scheduler_host import BROKEN, GOOD, lay_certificates
from tests.ansible.rendering import words

pytestmark = pytest.mark.long

Start = Callable[[str], DistributionHost]
UNITS = {"k3s": "k3s.service", "rke2": "rke2-server.service"}
SAID = {"kube_scheduler_extender_url": GOOD}


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    made: list[DistributionHost] = []

    def run(name: str) -> DistributionHost:
        made.append(DistributionHost(tmp_path, name))
        return made[-1]

    yield run
    for one in made:
        one.host.stop()


def changes(output: str) -> int:
    return int(re.findall(r"changed=(\d+)", output)[-1])


@pytest.mark.parametrize("name", UNITS)
def test_its_scheduler_gets_our_file_keeps_it_and_loses_it(start: Start, name: str) -> None:
    host = start(name)
    host.lay("10-site.yaml", {"kube-scheduler-arg": ["v=2"]})
    before = host.files()
    dry = host.play("main", "--check", **SAID)
    assert dry.returncode == 0, dry.stdout
    assert host.files() == before
    assert host.play("preflight", **SAID).returncode == 0
    done = host.play(**SAID)
    assert done.returncode == 0, done.stdout
    assert f"{UNITS[name]} hides its program behind another" in words(done)
    said = yaml.safe_load(host.config.read_text())
    assert [one["urlPrefix"] for one in said["extenders"]] == [GOOD]
    assert said["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert said["clientConnection"]["kubeconfig"] == str(host.host.kubeconfig)
    assert said["enableProfiling"] is False
    assert yaml.safe_load(host.arguments.read_text()) == {
        "kube-scheduler-arg+": [f"config={host.config}"]
    }
    assert host.command_line()[-2:] == ["--v=2", f"--config={host.config}"]
    pid = host.host.pid
    for again in (host.play(**SAID), host.play("main", "--check", **SAID)):
        assert changes(again.stdout) == 0, again.stdout
    verified = host.play("verify", **SAID)
    assert verified.returncode == 0, verified.stdout
    assert host.host.pid == pid
    gone = host.play("uninstall", **SAID)
    assert gone.returncode == 0, gone.stdout
    assert host.files() == before
    assert host.command_line()[-1] == "--v=2"
    assert changes(host.play("uninstall", **SAID).stdout) == 0


@pytest.mark.parametrize("name", ["k3s", pytest.param("rke2", marks=pytest.mark.nightly)])
def test_what_it_does_not_start_with_is_taken_back(start: Start, name: str) -> None:
    host = start(name)
    before = host.files()
    done = host.play(kube_scheduler_extender_url=BROKEN, __kube_scheduler_kubelet_seconds=3)
    assert done.returncode != 0
    assert "What it ran with before is back, and it answers again" in words(done), done.stdout
    kept = [name for name in host.files() if not name.endswith(".failed-gpustack")]
    assert kept == before
    host.host.wait()
    assert host.play(**SAID).returncode == 0
    good = host.config.read_text()
    done = host.play(kube_scheduler_extender_url=BROKEN, __kube_scheduler_kubelet_seconds=3)
    assert "What it ran with before is back, and it answers again" in words(done), done.stdout
    assert host.config.read_text() == good
    assert host.play("verify", **SAID).returncode == 0


def test_rke2_mounts_the_certificates(start: Start) -> None:
    host = start("rke2")
    certificates = host.folder / "pki"
    lay_certificates(certificates)
    said: dict[str, Any] = {
        "kube_scheduler_tls": True,
        "kube_scheduler_certificates": str(certificates),
        "kube_scheduler_extender_url": GOOD.replace("http:", "https:"),
    }
    done = host.play(**said)
    assert done.returncode == 0, done.stdout
    laid = yaml.safe_load(host.arguments.read_text())
    assert laid["kube-scheduler-extra-mount+"] == [f"{certificates}:{certificates}:ro"]
    host.arguments.write_text("")
    verified = host.play("verify", **said)
    assert f"{host.arguments} isn't as it should be" in words(verified), verified.stdout


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "policy": ({"kube_scheduler_form": "policy"}, "leave kube_scheduler_form out"),
    "folder": ({"__kube_scheduler_distribution_folder": "/nowhere"}, "has no /nowhere"),
    "kubeconfig": ({"kube_scheduler_kubeconfig": "/nowhere"}, "set kube_scheduler_kubeconfig to"),
    "manager": ({"kube_scheduler_manager": "systemd"}, "set it back to what it was"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_preflight_refuses_what_would_not_work(start: Start, case: str) -> None:
    variables, why = REFUSED[case]
    host = start("k3s")
    if case == "manager":
        assert host.play(**SAID).returncode == 0
        variables = {**variables, "__kube_scheduler_foreign_arguments": [str(host.arguments)]}
        gone = host.play("uninstall", **SAID, **variables)
        assert why in words(gone), gone.stdout
        assert host.arguments.exists()
    done = host.play("preflight", **SAID, **variables)
    assert done.returncode != 0
    assert why in words(done), done.stdout


def test_preflight_names_the_file_that_hides_ours(start: Start) -> None:
    host = start("k3s")
    host.lay("95-site.yaml", {"kube-scheduler-arg": ["v=2"]})
    done = host.play("preflight", "-vvv", **SAID)
    assert done.returncode != 0
    assert "95-site.yaml is read after" in words(done), done.stdout
    for secret in ("a-secret", base64.b64encode(b"token: a-secret\n").decode()):
        assert secret not in done.stdout


def test_preflight_names_a_command_line_that_hides_ours(start: Start) -> None:
    host = start("k3s")
    script = host.folder / "bin" / "systemctl"
    script.write_text(script.read_text().replace("k3s server ;", "k3s server --config /x ;"))
    done = host.play("preflight", **SAID)
    assert done.returncode != 0
    assert "k3s.service is started with --config" in words(done), done.stdout
