"""Devices by CDI: what Allocate answers, and the spec file that outlives those who change it."""

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from gpustack.agent.cdi.spec_file import NAME
from gpustack.model.request import ContainerKind
from tests.agent.host import CORE, KEYS, Host, container, decision, make_pod
from tests.fakes import cdi
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import card


def _turn(host: Host, *, on: bool) -> None:
    host.configuration["cdi"] = {"enabled": on, "spec_dir": str(host.cdi_folder)}
    host.cri.config = {"enableCDI": True, "cdiSpecDirs": ["/etc/cdi", str(host.cdi_folder)]}


def _file(host: Host) -> pathlib.Path:
    return host.cdi_folder / NAME


def _names(answer: Any) -> list[str]:
    return [each.name for each in answer.cdi_devices]


def _admit(host: Host, name: str, *, whole: bool) -> Any:
    pod = host.whole_card(name) if whole else host.share(name)
    answer = host.kubelet.admit(pod)["c0"]
    host.kubelet.start_container(pod, "c0", CORE)
    host.api.delete("pods", name)
    host.kubelet.remove(pod)
    host.wait_until(lambda: host.agent.records.all() == ())
    return answer


@pytest.mark.parametrize("whole", [False, True])
def test_names_stand_for_the_nodes_and_all_else_stays(host: Host, whole: bool) -> None:
    for name in ("nvidia-modeset", "nvidia-uvm-tools"):
        (host.files.devices / name).touch()
    host.start_agent()
    plain = _admit(host, "plain", whole=whole)
    host.stop_agent()
    _turn(host, on=True)
    host.start_agent()
    named = _admit(host, "named", whole=whole)
    assert list(named.devices) == list(plain.cdi_devices) == []
    besides = "whole-cards" if whole else "share"
    assert _names(named) == [f"tencent.com/vcuda={card(1).uuid}", f"tencent.com/vcuda={besides}"]
    paths = [each.host_path for each in plain.devices]
    found = cdi.injected([host.cdi_folder], _names(named), host.files.devices)
    assert found == cdi.plain(paths, host.files.devices)
    assert named.envs == plain.envs
    assert list(named.annotations) == list(plain.annotations)
    assert [each.container_path for each in named.mounts] == [
        each.container_path for each in plain.mounts
    ]


def test_the_spec_is_there_before_the_kubelet_knows_the_plugins(host: Host) -> None:
    _turn(host, on=True)
    host.kubelet.stop()
    host.start_agent(registered=False)
    assert _file(host).stat().st_mode == 0o100644
    assert host.cdi_folder.stat().st_mode & 0o777 == 0o755
    assert [each.name for each in host.cdi_folder.iterdir()] == [NAME]


def _unlink(file: pathlib.Path) -> None:
    file.unlink()


def _clear(file: pathlib.Path) -> None:
    shutil.rmtree(file.parent)


def _cut(file: pathlib.Path) -> None:
    os.truncate(file, 10)


def _open_up(file: pathlib.Path) -> None:
    file.chmod(0o666)


def _lead_away(file: pathlib.Path) -> None:
    copy = file.with_name("copy.txt")
    file.rename(copy)
    file.symlink_to(copy)


def _give_away(file: pathlib.Path) -> None:
    os.chown(file, 1000, 1000)


@pytest.mark.parametrize("change", [_unlink, _clear, _cut, _open_up, _lead_away, _give_away])
def test_a_spec_that_others_change_is_restored(
    host: Host, change: Callable[[pathlib.Path], None]
) -> None:
    _turn(host, on=True)
    host.start_agent()
    content = _file(host).read_bytes()
    change(_file(host))

    def restored() -> bool:
        try:
            found = _file(host).lstat()
            is_ours = (found.st_mode, found.st_uid) == (0o100644, os.geteuid())
            return is_ours and _file(host).read_bytes() == content
        except FileNotFoundError:
            return False

    host.wait_until(restored)


def test_an_answer_restores_the_spec_before_it_goes(host: Host) -> None:
    _turn(host, on=True)
    host.start_agent()
    _file(host).unlink()
    names = _names(host.kubelet.admit(host.share())["c0"])
    assert cdi.injected([host.cdi_folder], names, host.files.devices)


def test_the_spec_follows_the_nodes_of_the_host(host: Host) -> None:
    _turn(host, on=True)
    host.start_agent()
    (host.files.devices / "nvidia-uvm-tools").touch()
    host.wait_until(lambda: b"/dev/nvidia-uvm-tools" in _file(host).read_bytes())
    (host.files.devices / "nvidia1").chmod(0o600)
    host.wait_until(lambda: b'"fileMode": 384' in _file(host).read_bytes())


def test_specs_of_others_are_left_alone(host: Host) -> None:
    _turn(host, on=True)
    host.cdi_folder.mkdir()
    other = host.cdi_folder / "nvidia.yaml"
    other.write_text("cdiVersion: 0.5.0\n")
    host.start_agent()
    host.stop_agent()
    _turn(host, on=False)
    host.start_agent()
    assert [each.name for each in host.cdi_folder.iterdir()] == [other.name]
    assert other.read_text() == "cdiVersion: 0.5.0\n"


def test_without_the_option_there_is_no_file_and_no_folder(host: Host) -> None:
    host.start_agent()
    answer = host.kubelet.admit(host.share())["c0"]
    assert list(answer.cdi_devices) == []
    assert not host.cdi_folder.exists()


def test_the_file_stays_while_the_kubelet_keeps_its_names(host: Host) -> None:
    """The kubelet starts a container again with the answer that it keeps, and never asks anew."""
    _turn(host, on=True)
    host.start_agent()
    pod = host.share("old")
    names = _names(host.kubelet.admit(pod)["c0"])
    host.stop_agent()
    _turn(host, on=False)
    _file(host).unlink()  # as the host's boot does
    host.start_agent()
    host.kubelet.start_container(pod, "c0", CORE)
    assert cdi.injected([host.cdi_folder], names, host.files.devices)
    host.api.delete("pods", "old")
    host.kubelet.remove(pod)
    answer = host.kubelet.admit(host.share("new"))["c0"]
    assert list(answer.cdi_devices) == []
    host.wait_until(lambda: not _file(host).exists())


def test_a_file_stays_while_the_kubelets_checkpoint_can_not_be_read(host: Host) -> None:
    _turn(host, on=True)
    host.start_agent()
    host.stop_agent()
    _turn(host, on=False)
    broken = host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint"
    broken.write_text("{")
    host.start_agent()
    assert _file(host).exists()
    broken.unlink()
    host.wait_until(lambda: not _file(host).exists())


def test_a_spec_that_can_not_be_written_refuses_by_name(host: Host) -> None:
    _turn(host, on=True)
    host.cdi_folder.write_text("a file in the folder's place")
    host.start_agent()
    with pytest.raises(AdmissionError, match=rf"HostIncomplete: {_file(host)} can't be written: "):
        host.kubelet.admit(host.share())
    (problem,) = [each for each in host.agent.condition.unready() if "by CDI" in each]
    assert str(_file(host)) in problem
    host.cdi_folder.unlink()
    host.wait_until(lambda: not host.agent.cdi.problem)
    assert _names(host.kubelet.admit(host.share("q"))["c0"])


def test_a_decision_without_uuids_gets_the_cards_names(host: Host) -> None:
    """The original's extender writes none."""
    _turn(host, on=True)
    host.start_agent()
    written = decision((1,), cores=50, memory=32)
    del written[KEYS.uuid(ContainerKind.APP, 0)]
    pod = host.create(make_pod("p", container("c0", 50, 32), annotations=written))
    assert _names(host.kubelet.admit(pod)["c0"])[0] == f"tencent.com/vcuda={card(1).uuid}"


def test_another_domain_is_another_vendor(host: Host) -> None:
    _turn(host, on=True)
    host.configuration["domain"] = "example.org"
    host.start_agent(registered=False)
    assert json.loads(_file(host).read_text())["kind"] == "example.org/vcuda"


def test_each_container_of_a_pod_names_its_own_card(host: Host) -> None:
    _turn(host, on=True)
    host.start_agent()
    written = decision((1,), (0,), cores=50, memory=32)
    containers = [container(name, 50, 32) for name in ("c0", "c1")]
    answers = host.kubelet.admit(host.create(make_pod("p", *containers, annotations=written)))
    for name, minor in (("c0", 1), ("c1", 0)):
        assert _names(answers[name])[0] == f"tencent.com/vcuda={card(minor).uuid}"
