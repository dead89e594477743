"""Ways round the preload: each is closed, or shows to the agent as a process without the hook."""

import os
import pathlib
import shutil
import subprocess

import pytest

from gpustack.adapters import mapped
from gpustack.agent.violations.reactions import UNHOOKED
from tests.hook.container import CARD_BYTES, CONTEXT_BYTES, MIB, share
from tests.hook.drivers.debian import Package, unpacked
from tests.hook.escapes.ways_out import Outcome, escape, first_line, reports_of, unaccounted_bytes
from tests.hook.root import LIBRARIES, PRELOAD, Root, compiled, compiled_for_musl

pytestmark = pytest.mark.long
HELD = "2048 2"  # sees the share; 3 GiB are refused
FREE = "8192 0"  # sees the card; 3 GiB are granted
REPORTED = (
    "the agent's event UnhookedProcess names the process; its memory counts against the share"
)


def assert_reported(root: Root, client: "subprocess.Popen[str]") -> None:
    """Check that the host sees a client with 3 GiB and without the hook, in both ways."""
    with client:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == FREE
        assert reports_of(root, client.pid) == [UNHOOKED]
        assert unaccounted_bytes(root, client.pid) == CONTEXT_BYTES + 3000 * MIB
        client.communicate("\n", timeout=30)


@escape(
    "LD_PRELOAD unset, emptied, or naming a file that is missing",
    Outcome.CLOSED,
    "the hook is named by /etc/ld.so.preload, which no variable changes",
)
@pytest.mark.parametrize("value", [None, "", "/nowhere.so"])
def test_preload_variable_changes_nothing(root: Root, value: str | None) -> None:
    environment = {} if value is None else {"LD_PRELOAD": value}
    assert root.run("/bin/client", "soname", "3000", environment=environment) == HELD


@escape(
    "A libcuda.so.1 of the tenant's own by LD_LIBRARY_PATH, RPATH or conda, or the real file by its"
    " path",
    Outcome.CLOSED,
    "gates stand before every loaded object with the driver's SONAME, in any folder",
)
def test_drivers_elsewhere_are_gated_too(root: Root) -> None:
    root.add(root.folder / LIBRARIES / "libcuda.so.1", into="opt/conda/lib")
    path = {"LD_LIBRARY_PATH": "/opt/conda/lib"}
    assert root.run("/bin/client", "soname", "3000", environment=path) == HELD
    assert root.run("/bin/client", "path:/opt/conda/lib/libcuda.so.1", "3000") == HELD
    assert root.run("/bin/client", f"path:/{LIBRARIES}/libcuda.so.1", "3000") == HELD


@escape(
    "A setuid program",
    Outcome.CLOSED,
    "the loader drops LD_PRELOAD for it, but keeps /etc/ld.so.preload",
)
def test_setuid_programs_are_hooked(root: Root) -> None:
    (root.folder / "bin/client").chmod(0o4755)
    driver = f"path:/{LIBRARIES}/libcuda.so.1"  # LD_LIBRARY_PATH is dropped for it
    assert root.run("/bin/client", driver, "3000", user=1234) == HELD


@escape(
    "A program without our loader that maps a file of its own by the hook's name",
    Outcome.REPORTED,
    "the agent's event UnhookedProcess: the agent looks for the file itself, by its inode",
)
def test_a_file_of_the_hooks_name_is_not_the_hook(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(_idle(root, tmp_path, "glibc-static"))
    with root.start("/bin/idle") as idle:
        assert idle.stdout is not None
        assert idle.stdout.readline() == "up\n"
        # The agent's hooks lie elsewhere: a file that this process maps by that name isn't one of
        # them.
        assert reports_of(root, idle.pid) == [UNHOOKED]
        idle.communicate("\n", timeout=30)


@escape(
    "A statically linked program, or one for musl (Alpine)",
    Outcome.REPORTED,
    f"such a program works, and no /etc/ld.so.preload is read; {REPORTED}",
)
@pytest.mark.parametrize("kind", ["glibc-static", "musl-static", "musl-dynamic"])
def test_programs_without_our_loader_work_and_are_reported(
    root: Root, tmp_path: pathlib.Path, kind: str
) -> None:
    root.add(_idle(root, tmp_path, kind))
    with root.start("/bin/idle") as idle:
        assert idle.stdout is not None
        assert idle.stdout.readline() == "up\n"
        assert reports_of(root, idle.pid) == [UNHOOKED]
        _, complaint = idle.communicate("\n", timeout=30)
    assert (idle.returncode, complaint) == (0, "")


def _idle(root: Root, folder: pathlib.Path, kind: str) -> pathlib.Path:
    if kind == "glibc-static":
        return compiled(folder, "idle.c", "idle", "-static")
    if kind == "musl-static":
        return compiled_for_musl(folder, "idle.c", "idle")
    loader = unpacked(Package(suite="bookworm", name="musl")) / "lib" / "x86_64-linux-musl"
    shutil.copy(loader / "libc.so", root.folder / "lib" / "ld-musl-x86_64.so.1")
    return compiled_for_musl(folder, "idle.c", "idle", "-dynamic")


@escape("chroot into a folder without /etc/ld.so.preload", Outcome.REPORTED, REPORTED)
def test_a_chroot_is_reported(root: Root) -> None:
    jail = root.folder / "jail"
    for name in ("bin", "lib", "lib64", LIBRARIES, "dev", "var/lib/simgpu"):
        if (root.folder / name).exists():
            # Hard links: the driver's state must be the same file, as its mount would be.
            shutil.copytree(root.folder / name, jail / name, copy_function=os.link)
    client = root.start("/bin/client", "soname", "3000", "hold", inner="/jail")
    assert_reported(root, client)


@escape("A loader patched to read no preload", Outcome.REPORTED, REPORTED)
def test_a_patched_loader_is_reported(root: Root) -> None:
    loader = next((root.folder / "lib64").glob("ld-linux*"))
    patched = loader.read_bytes().replace(f"/{PRELOAD}".encode(), b"/etc/ld.no.preload")
    assert patched != loader.read_bytes()
    (root.folder / "tmp/ld.so").write_bytes(patched)
    (root.folder / "tmp/ld.so").chmod(0o755)
    client = root.start("/tmp/ld.so", "/bin/client", "soname", "3000", "hold")
    assert_reported(root, client)


@escape(
    "A glibc of the tenant's own (Nix, conda, a newer Debian's)",
    Outcome.CLOSED,
    "its loader reads /etc/ld.so.preload too, and the hook needs glibc 2.17 only; Nix patches the"
    " path in its loader: that is the patched loader above",
)
def test_another_glibc_is_hooked(root: Root) -> None:
    package = unpacked(Package(suite="trixie", name="libc6"))
    target = root.folder / "nix"
    target.mkdir()
    for file in next(package.rglob("libc.so.6")).parent.glob("*.so*"):
        shutil.copy(file, target)
    loader = f"/nix/{next(target.glob('ld-linux*')).name}"
    command = [loader, "--library-path", f"/nix:/{LIBRARIES}", "/bin/client", "soname", "3000"]
    assert root.run(*command) == HELD


@escape(
    "A program without the hook that has ended its main thread",
    Outcome.REPORTED,
    "the kernel then shows no maps for the process's PID; the agent asks its other threads, and"
    " sends the event UnhookedProcess. Its memory is counted as unaccounted; its GPU time is not"
    " limited",
)
def test_a_process_whose_main_thread_has_ended_is_seen(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "decoy.c", "decoy", "-static"))
    with root.start("/bin/decoy", "headless") as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "up\n"
        while pathlib.Path(f"/proc/{client.pid}/maps").read_bytes():
            assert client.poll() is None
        assert reports_of(root, client.pid) == [UNHOOKED]
        client.communicate("\n", timeout=30)


@escape(
    "A library by LD_PRELOAD with functions of the tenant's own in libc's place: to open, map,"
    " read, copy, lock, sleep, or tell the time",
    Outcome.CLOSED,
    "such a library stands before libc for the hook too, so the hook calls none of them: it asks"
    " the kernel itself, and copies by code of its own",
)
def test_functions_in_libcs_place_change_nothing(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "own_libc.c", "own_libc.so", "-shared", "-fPIC"), into="tmp")
    mapped.create_limits(root.folder / "tmp/limits", share(CARD_BYTES))
    preload = {"LD_PRELOAD": "/tmp/own_libc.so"}
    assert root.run("/bin/client", "soname", "3000", environment=preload) == HELD
    with root.start("/bin/client", "soname", "1500", "hold", environment=preload) as client:
        assert first_line(client) == "2048 0"
        assert root.run("/bin/client", "soname", "1500", environment=preload) == HELD
        client.communicate("\n", timeout=30)


def test_the_hook_calls_no_functions_but_of_the_loader(build: pathlib.Path) -> None:
    for machine in ("x86_64", "aarch64"):
        hook = build / machine / "libvcuda.so"
        listed = subprocess.check_output(["nm", "-D", "--undefined-only", hook], text=True)
        needed = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
        # What stands before these changes no limit: the program's objects, as any gate's absence
        # does; errno, which the hook only restores; a call at exit, which _exit leaves out too.
        assert needed == {"_r_debug", "dl_iterate_phdr", "__errno_location", "__cxa_atexit"}
