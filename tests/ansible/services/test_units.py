"""The units are valid for systemd and as hardened as they were."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from gpustack.adapters import mapped
from gpustack.agent.containers.held_files import MOST_FILES
from tests.ansible import layout
from tests.ansible.rendering import render

pytestmark = pytest.mark.long

# The most that `systemd-analyze security` may count, in tenths (0 is best). A number may only sink.
# The device unit loads modules and makes device nodes, the agent reads every process as root.
THRESHOLDS = {
    "gpustack-device.service": 20,
    "gpustack-agent.service": 24,
    # The host's mounts are its own: every setting that hides some of them is missing.
    "gpustack-mount.service": 60,
    # 2 of them because its worker, not its main process, talks to systemd (decision 0005).
    "gpustack-extender.service": 12,
    "gpustack-scheduler.service": 11,
    # It gives keys to their readers' groups.
    "gpustack-certificates.service": 12,
    # It does that, too, and asks the API server.
    "gpustack-token.service": 19,
}
TIMERS = ("gpustack-certificates.timer", "gpustack-token.timer")

# CAP_(CHOWN|FSETID) and CAP_CHOWN have a word in common
WORD = r"@?(?:CAP_|AF_)?([A-Za-z]\w+)"


@pytest.fixture(scope="module")
def units(rendered: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with the units, their programs replaced by one that is there."""
    folder = tmp_path_factory.mktemp("units")
    for name in (*THRESHOLDS, *TIMERS):
        text = (rendered / name).read_text("utf-8")
        (folder / name).write_text(
            re.sub(r"^Exec(Start|Reload)=\S+", r"Exec\1=/bin/true", text, flags=re.M)
        )
    return folder


def analyze(*arguments: str, units: pathlib.Path) -> subprocess.CompletedProcess[str]:
    assert shutil.which("systemd-analyze"), "systemd-analyze is missing: apt-get install systemd"
    return subprocess.run(
        ["systemd-analyze", *arguments],
        env={"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"},
        text=True,
        capture_output=True,
        check=False,
    )


def test_roles_start_and_stop_no_unit_of_others() -> None:
    named = {
        (file.parts[-3], task["ansible.builtin.systemd_service"].get("name", "gpustack: a reload"))
        for file in (layout.ROOT / "roles").glob("*/*/*.yml")
        for each in layout.load(file) or ()
        if isinstance(each, dict)
        for task in [each, *(each.get("block") or ())]
        if "ansible.builtin.systemd_service" in task
    }
    assert len(named) > 4
    assert {each for each in named if not each[1].startswith("gpustack")} == {
        ("kube_scheduler", "{{ __kube_scheduler_unit }}"),
        ("kube_scheduler", "{{ __kube_scheduler_own_unit }}"),
        ("host_snapshot", "{{ item }}"),  # of these
        ("nvidia_driver", "nvidia-fabricmanager.service"),  # beside NVSwitches, with our driver
    }
    of_snapshots = layout.load(layout.ROOT / "roles/host_snapshot/vars/main.yml")
    for units in of_snapshots["__host_snapshot_units"].values():
        assert all(unit.startswith("gpustack-") for unit in units)


@pytest.mark.parametrize("name", [*THRESHOLDS, *TIMERS])
def test_systemd_accepts_the_unit_without_a_warning(units: pathlib.Path, name: str) -> None:
    done = analyze("verify", "--man=no", str(units / name), units=units)
    # Other units of this machine may have faults of their own.
    about_us = [line for line in done.stderr.splitlines() if "gpustack" in line]
    assert about_us == []


@pytest.mark.parametrize(("name", "tenths"), THRESHOLDS.items())
def test_the_unit_exposes_no_more_than_it_did(units: pathlib.Path, name: str, tenths: int) -> None:
    done = analyze(
        "security", "--offline=true", f"--threshold={tenths}", "--no-pager", str(units / name),
        units=units,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.splitlines()[-1] + done.stderr


@pytest.mark.parametrize("name", sorted(set(THRESHOLDS) - {"gpustack-mount.service"}))
def test_each_right_that_a_unit_keeps_has_its_reason(units: pathlib.Path, name: str) -> None:
    done = analyze(
        "security", "--offline=true", "--json=short", "--no-pager", str(units / name), units=units
    )
    text = (units / name).read_text("utf-8")
    comments = {word for line in re.findall("^#.*", text, re.M) for word in re.findall(WORD, line)}
    kept = [each["name"] for each in json.loads(done.stdout) if float(each["exposure"] or 0) > 0]
    assert len(kept) >= 5
    for right in kept:
        # CapabilityBoundingSet=~CAP_(CHOWN|FSETID|SETFCAP), User=/DynamicUser=
        names = set(re.findall(WORD, right.partition("~")[2] or right))
        assert names & comments, f"{right}: say in the unit's template why it is kept"


@pytest.mark.nightly
def test_the_device_unit_of_an_old_systemd_may_make_every_node(tmp_path: pathlib.Path) -> None:
    """Before 244 a pattern stands for the numbers that the kernel knew when the unit started."""
    for version, filtered in {243: False, 245: True}.items():
        folder = tmp_path / str(version)
        folder.mkdir()
        text = (render(folder, systemd_version=version) / "gpustack-device.service").read_text()
        for directive in ("DeviceAllow", "DevicePolicy", "ProtectClock"):
            assert (f"\n{directive}=" in text) is filtered, (version, directive)


def test_the_agent_waits_for_device_nodes_and_restarts_after_any_failure(
    rendered: pathlib.Path,
) -> None:
    lines = (rendered / "gpustack-agent.service").read_text("utf-8").splitlines()
    (wants,) = (line for line in lines if line.startswith("Wants="))
    assert "gpustack-device.service" in wants
    assert "Type=notify" in lines
    assert "Restart=always" in lines
    assert any(line.startswith("WatchdogSec=") for line in lines)


def test_the_mounts_unit_has_no_mounts_of_its_own(rendered: pathlib.Path) -> None:
    """What it mounts must be the container runtime's to see.

    Source of the names: exec_needs_mount_namespace in systemd's src/core/exec-invoke.c.
    """
    text = (rendered / "gpustack-mount.service").read_text("utf-8")
    own = re.findall(
        r"^(?:Root\w+|Mount\w+|Bind\w+|Private\w+|Protect\w+|Proc\w+|ExtensionImages|ExtensionDirectories"
        r"|(?:ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|TemporaryFileSystem|DynamicUser"
        r"|LogNamespace|IPCNamespacePath)=.*",
        text,
        re.MULTILINE,
    )
    assert own == []
    assert "CapabilityBoundingSet=CAP_SYS_ADMIN" in text.splitlines()


def test_a_reload_fails_with_the_agents_refusal(rendered: pathlib.Path) -> None:
    lines = (rendered / "gpustack-agent.service").read_text("utf-8").splitlines()
    program = "/opt/gpustack/venv/bin/gpustack-agent"
    assert f"ExecReload={program} --reload --config /etc/gpustack/agent.yml" in lines


def test_no_client_takes_more_files_or_reads_more_of_the_agent(rendered: pathlib.Path) -> None:
    lines = (rendered / "gpustack-agent.service").read_text("utf-8").splitlines()
    assert "LimitNOFILE=4096" in lines
    assert "RuntimeDirectoryMode=0700" in lines


@pytest.mark.skipif(os.getuid() != 0, reason="drops some of root's rights: run as root")
def test_the_agents_rights_are_enough_to_restore_a_tenants_file(
    rendered: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    unit = (rendered / "gpustack-agent.service").read_text("utf-8")
    (rights,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    kept = "".join(f",+{right.removeprefix('CAP_').lower()}" for right in rights.split())
    ledger = tmp_path / "ledger"
    mapped.create_ledger(ledger, ["GPU-00000000-0000-0000-0000-00000000000a"])
    os.chown(ledger, 1000, 1000)
    ledger.chmod(0o4000)
    program = (
        "import pathlib, sys; from gpustack.adapters import mapped;"
        "file = mapped.open_for_writing(pathlib.Path(sys.argv[1]));"
        "print(mapped.restore(file, mapped.FORMS['ledger']))"
    )
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-all{kept}", sys.executable, "-c", program, str(ledger)],
        cwd=layout.ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.stdout == "{'owner': '1000:1000 and stays so', 'mode': '4000, is 0666 again'}\n", (
        done.stderr
    )


def test_systemd_keeps_every_file_that_the_agent_holds(rendered: pathlib.Path) -> None:
    lines = (rendered / "gpustack-agent.service").read_text("utf-8").splitlines()
    assert f"FileDescriptorStoreMax={MOST_FILES}" in lines
    assert "NotifyAccess=main" in lines, "it takes files from the main process"


def test_a_failed_device_unit_is_tried_again_by_the_agents_next_start(
    rendered: pathlib.Path,
) -> None:
    """A unit that requires a failed one stays down; one that wants it starts, by its Restart=."""
    agent = (rendered / "gpustack-agent.service").read_text("utf-8")
    assert not re.search(r"^(Requires|BindsTo|Requisite)=.*gpustack-device", agent, re.MULTILINE)
    assert re.search(r"^ExecStartPre=.*is-active --quiet gpustack-device", agent, re.MULTILINE)
    device = (rendered / "gpustack-device.service").read_text("utf-8")
    # refused for a one-shot before systemd 244
    assert "Restart=" not in device
    # and never given up
    assert "StartLimitIntervalSec=0" in device.splitlines()


def test_the_extender_is_watched_and_comes_back_after_any_failure(rendered: pathlib.Path) -> None:
    lines = (rendered / "gpustack-extender.service").read_text("utf-8").splitlines()
    for line in ("Type=notify", "NotifyAccess=all", "Restart=always", "User=gpustack-extender"):
        assert line in lines
    assert any(line.startswith("WatchdogSec=") for line in lines)


@pytest.mark.parametrize(
    ("name", "most"), [("gpustack-agent.service", "512M"), ("gpustack-extender.service", "2G")]
)
def test_a_unit_that_takes_too_much_memory_is_started_again(
    rendered: pathlib.Path, name: str, most: str
) -> None:
    lines = (rendered / name).read_text("utf-8").splitlines()
    assert f"MemoryMax={most}" in lines
    assert "Restart=always" in lines


def test_the_device_script_is_valid_shell(rendered: pathlib.Path) -> None:
    done = subprocess.run(
        ["sh", "-n", str(rendered / "gpustack-device.sh")],
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("daemon", ["agent", "extender"])
def test_a_unit_changes_with_the_environment_that_it_runs_in(
    rendered: pathlib.Path, daemon: str
) -> None:
    lines = (rendered / f"gpustack-{daemon}.service").read_text("utf-8").splitlines()
    assert "X-GpustackEnvironment=cpython-311-0123456789abcdef" in lines
