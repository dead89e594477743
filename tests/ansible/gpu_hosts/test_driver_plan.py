"""A driver's change is known before it is made, and a host boots for it only where it may."""

import json
import pathlib
from typing import Any

import pytest
import yaml

from tests.ansible.preflight.preflight_host import write_program
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

BEFORE = "libcuda1 installed libcuda1=535.261.03-1 install"
NEWER = "Inst libcuda1 [535.261.03-1] (550.163.01-1 Debian:12 [amd64])"


def run(
    folder: pathlib.Path,
    *entry: str,
    apt: str,
    loaded: str = "",
    module: str = "",
    place: str = "",
    modinfo: str = "",
    **more: Any,
) -> tuple[int, str]:
    """Run the role's part; returns its status and its words, with what it hands on.

    Args:
        folder: of this host, which is this machine.
        entry: the part, or several that a playbook runs one after the other.
        apt: what apt-get prints, or `fail`.
        loaded: version of the driver that runs; none if empty.
        module: version that a boot would load.
        place: the folder of its file.
        modinfo: a program that answers in the place of these two.
        more: variables, without the role's prefix.
    """
    # it knows libcuda1 alone
    known = f"case \"$*\" in *libcuda1*) echo '{BEFORE}';; *) exit 1;; esac"
    write_program(folder, "dpkg-query", known)
    write_program(folder, "apt-get", "exit 100" if apt == "fail" else f"echo '{apt}'")
    write_program(
        folder,
        "modinfo",
        modinfo or f"case $1 in *filename) echo {place}/nvidia.ko;; *) echo {module};; esac",
    )
    if loaded:
        file = folder / "sys/module/nvidia/version"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{loaded}\n")
    (folder / "proc").mkdir(exist_ok=True)
    settings = {
        "__nvidia_driver_sys_path": f"{folder}/sys",
        "__nvidia_driver_proc_path": f"{folder}/proc",
        "__nvidia_driver_record": f"{folder}/record",
        "ansible_facts": {"pkg_mgr": "apt"},
        "nvidia_driver_packages": ["libcuda1=550.*"],
        **{f"nvidia_driver_{name}": value for name, value in more.items()},
    }
    facts = "[nvidia_driver_before | default(0), nvidia_driver_changes | default(0)] | to_json"
    handed = {"copy": {"content": f"{{{{ {facts} }}}}\n", "dest": f"{folder}/handed"}}
    parts = [{"import_role": {"name": "nvidia_driver", "tasks_from": each}} for each in entry]
    (folder / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "h", "gather_facts": False, "tasks": [*parts, handed]}])
    )
    done = ansible(
        "ansible-playbook", "--inventory=h,", "--connection=local",
        f"--extra-vars={json.dumps(settings)}", f"{folder}/play.yml",
        programs=folder / "programs",
    )  # fmt: skip
    file = folder / "handed"
    return done.returncode, words(done) + (file.read_text() if file.exists() else "")


def start(proc: pathlib.Path, pid: int, cgroup: str, name: str = "python3") -> None:
    """Let a process have a card open, as proc shows it."""
    (proc / str(pid) / "fd").mkdir(parents=True)
    for number, file in enumerate(("/dev/null", "socket:[1]", "/dev/nvidiactl", "/dev/nvidia0")):
        (proc / str(pid) / "fd" / str(number)).symlink_to(file)
    (proc / str(pid) / "cgroup").write_text(f"0::{cgroup}\n")
    (proc / str(pid) / "comm").write_text(f"{name}\n")


@pytest.mark.parametrize(
    ("apt", "changes"),
    [(NEWER, f'"{NEWER.removeprefix("Inst ")}"'), ("done", ""), ("fail", '"libcuda1=550.*"')],
)
def test_a_plan_says_what_is_here_and_what_would_come(
    tmp_path: pathlib.Path, apt: str, changes: str
) -> None:
    status, said = run(tmp_path, "plan", apt=apt)
    assert status == 0, said
    assert f'[["libcuda1=535.261.03-1"], [{changes}]]' in said


def test_going_back_does_not_follow_extra_vars(tmp_path: pathlib.Path) -> None:
    status, said = run(tmp_path, "plan", apt="fail", earlier_packages=["libcuda1=535.1"])
    assert (status, '["libcuda1=535.1"]]' in said) == (0, True), said


def test_a_change_that_needs_a_boot_is_refused_unless_allowed(tmp_path: pathlib.Path) -> None:
    versions = {"apt": NEWER, "loaded": "535.261.03", "module": "535.261.03"}
    status, said = run(tmp_path, "plan", **versions)
    assert status != 0
    assert "h runs driver 535.261.03 until it boots, and would get libcuda1" in said
    status, said = run(tmp_path, "plan", **versions, reboot=True)
    assert status == 0, said


def test_a_change_is_refused_under_a_process_that_uses_a_card(tmp_path: pathlib.Path) -> None:
    versions: dict[str, Any] = {"apt": NEWER, "loaded": "535.261.03", "module": "535.261.03"}
    start(tmp_path / "proc", 4711, "/user.slice/session-3.scope")
    status, said = run(tmp_path, "plan", **versions, reboot=True)
    assert status != 0
    assert "4711 (python3) uses cards of h, whose driver was left as it is" in said
    status, said = run(tmp_path, "plan", **versions, reboot=True, despite_processes=True)
    assert status == 0, said


def test_no_process_is_asked_for_while_nothing_changes(tmp_path: pathlib.Path) -> None:
    start(tmp_path / "proc", 4711, "/user.slice/session-3.scope")
    status, said = run(tmp_path, "plan", apt="done")
    assert status == 0, said


OF_SITE = "h runs driver 535.261.03, and would get libcuda1 of another version while pods use"


@pytest.mark.parametrize(
    ("apt", "loaded", "refused"),
    [
        (NEWER, "535.261.03", True),
        ("fail", "535.261.03", True),  # the version is of a repository that isn't here yet
        ("done", "535.261.03", False),
        ("Inst nvidia-smi (550.163.01-1 Debian:12 [amd64])", "535.261.03", False),
        (NEWER, "", False),
    ],
    ids=["newer", "unknown", "same", "one more", "not loaded"],
)
def test_a_driver_that_runs_is_changed_by_no_run_of_site(
    tmp_path: pathlib.Path, apt: str, loaded: str, refused: bool
) -> None:
    status, said = run(tmp_path, "preflight", "in_place", apt=apt, loaded=loaded, module=loaded)
    assert ((status != 0), OF_SITE in said) == (refused, refused), said


@pytest.mark.nightly
def test_a_driver_that_waits_for_a_boot_is_a_change(tmp_path: pathlib.Path) -> None:
    versions = {"apt": "done", "loaded": "535.261.03", "module": "550.163.01"}
    status, said = run(tmp_path, "plan", **versions, reboot=True)
    assert status == 0, said
    assert '["a boot from driver 535.261.03 to 550.163.01"]' in said
    status, said = run(tmp_path, "reload", **versions)
    assert status != 0
    assert "h waits for a boot from driver 535.261.03 to 550.163.01" in said


def test_a_boot_that_fails_says_what_to_do(tmp_path: pathlib.Path) -> None:
    versions = {"apt": "done", "loaded": "535.261.03", "module": "550.163.01"}
    # Ansible boots no host that is the controller itself
    status, said = run(tmp_path, "reload", **versions, reboot=True)
    assert status != 0
    assert "h is not back from a boot from driver 535.261.03 to 550.163.01 (Running" in said
    assert "see to its console, and run the playbook again" in said


def test_a_host_that_runs_the_installed_driver_does_not_boot(tmp_path: pathlib.Path) -> None:
    same = {"apt": "done", "loaded": "550.163.01", "module": "550.163.01"}
    status, said = run(tmp_path, "reload", **same)
    assert status == 0, said


def test_a_driver_of_others_that_waits_for_a_boot_is_a_change(tmp_path: pathlib.Path) -> None:
    """The role's part reload boots for it: before, nodes are drained where the plan has changes."""
    versions: dict[str, Any] = {"apt": NEWER, "loaded": "535.261.03", "module": "550.163.01"}
    status, said = run(tmp_path, "plan", **versions, packages=[])
    assert status != 0
    assert "h runs driver 535.261.03 until it boots, and would get a boot from driver" in said
    status, said = run(tmp_path, "plan", **versions, packages=[], reboot=True)
    assert status == 0, said
    assert '[[], ["a boot from driver 535.261.03 to 550.163.01"]]' in said
    start(tmp_path / "proc", 4711, "/user.slice/session-3.scope")
    status, said = run(tmp_path, "plan", **versions, packages=[], reboot=True)
    assert status != 0
    assert "4711 (python3) uses cards of h, whose driver was left as it is" in said


def test_a_driver_of_others_that_runs_is_no_change(tmp_path: pathlib.Path) -> None:
    same = {"apt": NEWER, "loaded": "550.163.01", "module": "550.163.01"}
    status, said = run(tmp_path, "plan", **same, packages=[])
    assert status == 0, said
    assert "[[], []]" in said
