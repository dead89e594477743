"""Preflight says what a host's cgroups and the cluster's feature gates mean for GPU hosts."""

import contextlib
import json
import pathlib
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.ansible import plugins
from tests.ansible.kube_scheduler.trial.laid_processes import USERS_POD, lay_process
from tests.ansible.preflight.preflight_host import play

filters = plugins.load("roles/preflight/filter_plugins/preflight_gates.py")

HYBRID = "gpu1 has a hybrid of cgroup v1 and v2, which counts as v1"
V1 = "gpu1 has cgroup v1"
CURE = "Boot it with the unified hierarchy: systemd.unified_cgroup_hierarchy=1"
# Where each hierarchy has a root that is a cgroup of v2, below /sys/fs/cgroup.
HIERARCHIES = {"unified": ["."], "hybrid": ["unified"], "v1": []}


@contextlib.contextmanager
def kubelet(folder: pathlib.Path, *, runs: bool) -> Iterator[None]:
    """Let a kubelet listen below the folder; one that has ended leaves its socket."""
    (folder / "device-plugins").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "device-plugins" / "kubelet.sock"))
        if runs:
            listener.listen()
        yield


def cgroups(folder: pathlib.Path, hierarchy: str, *, runs: bool) -> tuple[int, str]:
    """Check a host with this hierarchy, on which a kubelet runs or not."""
    root = folder / "cgroup"
    for path in HIERARCHIES[hierarchy]:
        (root / path).mkdir(parents=True)
        (root / path / "cgroup.controllers").touch()
    extra = {"__preflight_cgroup_root": str(root)}
    variables = {
        "preflight_kubelet_path": str(folder),
        "preflight_interpreter": sys.executable,
    }
    with kubelet(folder, runs=runs):
        return play(folder, "cgroups", variables, f"--extra-vars={json.dumps(extra)}")


@pytest.mark.long
@pytest.mark.parametrize(("hierarchy", "named"), [("hybrid", HYBRID), ("v1", V1)])
def test_a_host_without_cgroup_v2_whose_kubelet_runs_is_warned(
    tmp_path: pathlib.Path, hierarchy: str, named: str
) -> None:
    status, words = cgroups(tmp_path, hierarchy, runs=True)
    assert status == 0, words
    assert f"{named}. Its kubelet runs, but from 1.35 on" in words
    assert CURE in words


@pytest.mark.long
@pytest.mark.parametrize(("hierarchy", "named"), [("hybrid", HYBRID), ("v1", V1)])
def test_a_host_without_cgroup_v2_and_kubelet_is_refused(
    tmp_path: pathlib.Path, hierarchy: str, named: str
) -> None:
    status, words = cgroups(tmp_path, hierarchy, runs=False)
    assert status != 0
    assert f"{named}, and no kubelet answers at" in words
    assert CURE in words
    assert "Or set failCgroupV1: false in the kubelet's configuration, and start it" in words


@pytest.mark.long
def test_a_host_with_cgroup_v2_passes_without_a_word(tmp_path: pathlib.Path) -> None:
    status, words = cgroups(tmp_path, "unified", runs=False)
    assert status == 0, words
    assert "gpu1 has" not in words


SCHEDULER = "/usr/bin/kube-scheduler --leader-elect=true"
NODE, RESTRICTION = "--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f"{SCHEDULER} --feature-gates=GenericWorkload=true", ["GenericWorkload=true"]),
        (f"{SCHEDULER} --feature-gates GenericWorkload=T --v=2", ["GenericWorkload=T"]),
        (f"{SCHEDULER} --feature-gates=A=true,kube:GenericWorkload=1", ["GenericWorkload=1"]),
        (f'{SCHEDULER} --feature-gates="A=false,GenericWorkload=true"', ["GenericWorkload=true"]),
        (
            f"{SCHEDULER} --feature-gates=GenericWorkload=true --feature-gates=A=true",
            ["GenericWorkload=true"],
        ),
        (
            f"{SCHEDULER} --feature-gates=AllBeta=true",
            ["AllBeta=true, which sets it from 1.37 on"],
        ),
        (
            f"{SCHEDULER} --feature-gates=AllAlpha=true",
            ["AllAlpha=true, which sets it in 1.35 and 1.36"],
        ),
        (f"{SCHEDULER} --feature-gates=AllBeta=true,GenericWorkload=false", []),
        (f"{SCHEDULER} --feature-gates=GenericWorkload=true,GenericWorkload=false", []),
        (f"{SCHEDULER} --feature-gates=wardle:GenericWorkload=true", []),
        (f"{SCHEDULER} --feature-gates=GenericWorkload", []),
        (f"{SCHEDULER} --feature-gates", []),
        (SCHEDULER, []),
    ],
)
def test_a_gate_is_read_as_kubernetes_reads_it(line: str, found: list[str]) -> None:
    process = {"program": "kube-scheduler", "command": line.split()}
    assert filters.gated([process]) == [f"kube-scheduler has {each}" for each in found]


_GATES = [filters.GATE, *filters.KINDS]
_PROGRAMS = ["kube-apiserver", "kube-scheduler"]
_LINES = some.builds(
    "{0} --feature-gates={0},{1}={2}".format,
    some.text(max_size=50),
    some.sampled_from(_GATES),
    some.sampled_from(filters.TRUE),
)
_PROCESSES = some.fixed_dictionaries(
    {"program": some.sampled_from(_PROGRAMS), "command": _LINES.map(str.split)}
)


@given(some.lists(_PROCESSES))
def test_any_command_lines_give_a_few_short_lines(processes: list[dict[str, Any]]) -> None:
    found = filters.gated(processes)
    assert len(found) <= len(_PROGRAMS) * len(_GATES) * len(filters.TRUE)
    assert all(each.isascii() and len(each) < 99 for each in found)


def control_plane(
    folder: pathlib.Path, scheduler: str = SCHEDULER, *flags: str, users: str = ""
) -> tuple[int, str]:
    """Check a control plane whose static pods these are, beside an API server of a user's pod."""
    lay_process(folder, 7, command=tuple(scheduler.split()))
    lay_process(folder, 9, command=("kube-apiserver", *flags))
    lay_process(folder, 11, USERS_POD, ("kube-apiserver", *users.split()))
    extra = json.dumps({"__kube_scheduler_proc": str(folder / "proc")})
    variables = {"preflight_kind": "control_plane"}
    return play(folder, "control_plane", variables, f"--extra-vars={extra}")


@pytest.mark.long
def test_a_users_process_does_not_speak_for_the_api_server(tmp_path: pathlib.Path) -> None:
    status, words = control_plane(tmp_path, SCHEDULER, NODE, users=f"{NODE} {RESTRICTION}")
    assert status != 0, words
    assert "The API server must run with" in words


@pytest.mark.long
def test_an_api_server_that_is_not_known_for_the_hosts_is_named(tmp_path: pathlib.Path) -> None:
    lay_process(tmp_path, 9, f"/system.slice/docker-{'c' * 64}.scope", ("kube-apiserver",))
    extra = json.dumps({"__kube_scheduler_proc": str(tmp_path / "proc")})
    variables = {"preflight_kind": "control_plane"}
    status, words = play(tmp_path, "control_plane", variables, f"--extra-vars={extra}")
    assert status == 0, words
    assert "The process 9 on this host is called kube-apiserver" in words


@pytest.mark.long
def test_a_control_plane_with_native_gangs_is_warned(tmp_path: pathlib.Path) -> None:
    status, words = control_plane(
        tmp_path, f"{SCHEDULER} --feature-gates=GenericWorkload=true", NODE, RESTRICTION
    )
    assert status == 0, words
    assert "(feature gate GenericWorkload): kube-scheduler has GenericWorkload=true." in words
    assert "--feature-gates=GenericWorkload=false" in words


@pytest.mark.long
def test_a_control_plane_without_native_gangs_passes_without_a_word(
    tmp_path: pathlib.Path,
) -> None:
    users = "--feature-gates=GenericWorkload=true --authorization-mode=AlwaysAllow"
    status, words = control_plane(tmp_path, SCHEDULER, NODE, RESTRICTION, users=users)
    assert status == 0, words
    assert "GenericWorkload" not in words
    assert "is called kube-apiserver" not in words
