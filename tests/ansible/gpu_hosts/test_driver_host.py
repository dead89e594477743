"""A host whose cards the driver couldn't take is refused, and a driver of others is left alone."""

import pathlib
from typing import Any

import pytest

from tests.ansible import plugins
from tests.ansible.gpu_hosts.test_driver_plan import NEWER, run, start
from tests.ansible.preflight.preflight_host import write_program

host = plugins.load("roles/nvidia_driver/library/nvidia_driver_host.py")
users = plugins.load("roles/nvidia_driver/library/nvidia_driver_processes.py")
H100 = ("0x2330", "0x030200")
NVSWITCH = ("0x22a3", "0x068000")


def device(sys_path: pathlib.Path, slot: str, number: str, kind: str, by: str = "nvidia") -> None:
    folder = sys_path / "bus/pci/devices" / slot
    folder.mkdir(parents=True)
    vendor = "0x8086" if number == "0x1234" else "0x10de"
    for name, value in {"vendor": vendor, "device": number, "class": kind}.items():
        (folder / name).write_text(f"{value}\n")
    if by:
        (folder / "driver").symlink_to(f"../../drivers/{by}")


def test_cards_and_switches_are_told_apart(tmp_path: pathlib.Path) -> None:
    device(tmp_path, "0000:01:00.0", "0x2330", "0x030200")
    device(tmp_path, "0000:02:00.0", "0x22a3", "0x068000")
    device(tmp_path, "0000:03:00.0", "0x10f7", "0x040300")  # a card's sound
    device(tmp_path, "0000:04:00.0", "0x1234", "0x030000", by="nouveau")  # not NVIDIA's
    device(tmp_path, "0000:05:00.0", "0x1eb8", "0x030000", by="")
    expected = {"cards": [0x2330, 0x1EB8], "switches": 1, "nouveau": False}
    assert host.cards(tmp_path) == expected
    device(tmp_path, "0000:06:00.0", "0x1eb8", "0x030000", by="nouveau")
    assert host.cards(tmp_path)["nouveau"]


def test_secure_boot_is_read_from_the_firmware(tmp_path: pathlib.Path) -> None:
    assert not host.secure_boot(tmp_path)
    file = tmp_path / "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\6\0\0\0\0")
    assert not host.secure_boot(tmp_path)
    file.write_bytes(b"\6\0\0\0\1")
    assert host.secure_boot(tmp_path)


def boots_signed_only(sys_path: pathlib.Path) -> None:
    file = sys_path / "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\6\0\0\0\1")


@pytest.mark.long
def test_cards_that_nouveau_drives_are_refused(tmp_path: pathlib.Path) -> None:
    device(tmp_path / "sys", "0000:01:00.0", *H100, by="nouveau")
    status, said = run(tmp_path, "preflight", apt="done")
    assert status != 0
    assert "nouveau drives this host's cards" in said


@pytest.mark.long
def test_unsigned_modules_are_refused_where_none_would_load(tmp_path: pathlib.Path) -> None:
    boots_signed_only(tmp_path / "sys")
    built = ["nvidia-kernel-dkms", "libcuda1"]
    status, said = run(tmp_path, "preflight", apt="done", packages=built)
    assert status != 0
    assert (
        "DKMS signs the modules of nvidia-kernel-dkms: they would be built and never load" in said
    )
    signed = ["linux-modules-nvidia-580-server-generic"]
    status, said = run(tmp_path, "preflight", apt="done", packages=signed)
    assert status == 0, said


OF_DKMS = "/lib/modules/6.1.0-25-amd64/updates/dkms"
OF_UBUNTU = "/lib/modules/6.8.0-45-generic/kernel/nvidia-580srv"
RUNS: dict[str, Any] = {"apt": "done", "loaded": "535.261.03", "module": "535.261.03"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("runs", "wanted", "taken"),
    [
        # libcuda1 is here: a driver of this role's packages, which would build another
        pytest.param({"place": OF_DKMS}, "libcuda1", True, id="built here"),
        pytest.param({"place": OF_UBUNTU}, "libcuda1", False, id="signed by Ubuntu"),
        pytest.param(
            {"place": OF_DKMS, "module": "550.1"}, "libcuda1", False, id="another is next"
        ),
        # no package is here: this driver is of others, and none is built
        pytest.param({"place": OF_UBUNTU}, "nvidia-smi", True, id="adopted"),
        pytest.param({"place": OF_UBUNTU, "module": "550.1"}, "nvidia-smi", False, id="half gone"),
    ],
)
def test_a_driver_that_runs_vouches_for_its_own_builder_alone(
    tmp_path: pathlib.Path, runs: dict[str, str], wanted: str, taken: bool
) -> None:
    boots_signed_only(tmp_path / "sys")
    status, said = run(
        tmp_path, "preflight", **{**RUNS, **runs}, packages=["nvidia-kernel-dkms", wanted]
    )
    assert (status == 0) is taken, said
    assert ("they would be built and never load" in said) is not taken


@pytest.mark.long
@pytest.mark.parametrize(("taint", "taken"), [("POE", True), ("PO", False)])
def test_a_kernel_that_runs_an_unsigned_driver_takes_the_next(
    tmp_path: pathlib.Path, taint: str, taken: bool
) -> None:
    boots_signed_only(tmp_path / "sys")
    file = tmp_path / "sys/module/nvidia/taint"
    file.parent.mkdir(parents=True)
    file.write_text(f"{taint}\n")
    packages = ["nvidia-kernel-dkms", "libcuda1"]
    status, said = run(tmp_path, "preflight", **RUNS, place=OF_UBUNTU, packages=packages)
    assert (status == 0) is taken, said


@pytest.mark.long
def test_switches_without_a_fabric_manager_are_refused(tmp_path: pathlib.Path) -> None:
    device(tmp_path / "sys", "0000:01:00.0", *H100)
    device(tmp_path / "sys", "0000:02:00.0", *NVSWITCH)
    status, said = run(tmp_path, "preflight", apt="done")
    assert status != 0
    assert "joined by 1 NVSwitches, and nvidia_driver_packages names no fabric manager" in said
    both = ["nvidia-open", "nvidia-fabricmanager"]
    status, said = run(tmp_path, "preflight", apt="done", packages=both)
    assert status == 0, said


@pytest.mark.long
def test_a_driver_of_others_is_no_change(tmp_path: pathlib.Path) -> None:
    versions = {"apt": NEWER, "loaded": "535.261.03", "module": "535.261.03"}
    status, said = run(tmp_path, "plan", **versions, packages=["nvidia-driver-cuda"])
    assert status == 0, said
    assert "[[], []]" in said


# As modprobe prints them with Debian 12's nvidia-kernel-common 535.261.03, and without.
OF_DEBIAN = """alias char_major_195* nvidia
remove nvidia modprobe -r -i nvidia-drm nvidia-modeset nvidia-peermem nvidia-uvm nvidia
install nvidia_uvm modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS
install nvidia modprobe -i nvidia-current $CMDLINE_OPTS
"""


@pytest.mark.parametrize(
    ("configuration", "name"),
    [(OF_DEBIAN, "nvidia-current"), ("", "nvidia"), ("blacklist nouveau\n", "nvidia")],
)
def test_the_modules_file_is_found_by_its_rule(configuration: str, name: str) -> None:
    assert host.module_of(configuration) == name


@pytest.mark.long
def test_debians_driver_waits_for_no_boot(tmp_path: pathlib.Path) -> None:
    write_program(tmp_path, "modprobe", f"cat <<'EOF'\n{OF_DEBIAN}EOF")
    module = "case $2 in nvidia-current) echo 535.261.03;; *) exit 1;; esac"
    versions = {"apt": "done", "loaded": "535.261.03"}
    status, said = run(tmp_path, "plan", **versions, modinfo=module)
    assert status == 0, said
    assert '[["libcuda1=535.261.03-1"], []]' in said


KUBELET = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"
DAEMONS = ("gpustack-agent", "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm")


def test_processes_outside_of_pods_are_those_that_use_a_card(tmp_path: pathlib.Path) -> None:
    start(tmp_path, 20, "/system.slice/docker-0123.scope", "train me")
    start(tmp_path, 3, "/user.slice/user-0.slice/session-1.scope", "Xorg")
    start(tmp_path, 5, f"{KUBELET}/cri-containerd-0123.scope")
    start(tmp_path, 6, "/kubepods/besteffort/pod1/0123")
    for pid, daemon in enumerate(DAEMONS, 7):
        start(tmp_path, pid, f"/system.slice/{daemon}.service", daemon)
    (tmp_path / "1" / "fd").mkdir(parents=True)  # has none open
    (tmp_path / "2").mkdir()  # ends while it is asked
    (tmp_path / "sys").mkdir()
    assert users.processes(tmp_path) == ["3 (Xorg)", "20 (train me)"]


def test_a_card_that_a_boot_has_renamed_is_still_in_use(tmp_path: pathlib.Path) -> None:
    start(tmp_path, 4, "/")
    (tmp_path / "4" / "fd" / "3").unlink()
    assert users.processes(tmp_path) == []
    (tmp_path / "4" / "fd" / "3").symlink_to("/dev/nvidia12 (deleted)")
    assert users.processes(tmp_path) == ["4 (python3)"]


def test_a_cgroup_of_any_name_keeps_no_process_from_being_found(tmp_path: pathlib.Path) -> None:
    start(tmp_path, 4, "/")
    (tmp_path / "4" / "cgroup").write_bytes(b"0::/user.slice/a\xffb\n")
    assert users.processes(tmp_path) == ["4 (python3)"]


def test_a_cgroup_that_is_not_told_keeps_none_from_being_found(
    tmp_path: pathlib.Path,
) -> None:
    """Its path may be too long, as any account makes one: the read fails."""
    start(tmp_path, 4, "/")
    (tmp_path / "4" / "cgroup").unlink()
    (tmp_path / "4" / "cgroup").mkdir()
    assert users.processes(tmp_path) == ["4 (python3)"]
