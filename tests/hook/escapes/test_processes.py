"""Processes as containers have them: children of all kinds, users, roots that lack things."""

import json
import pathlib
import subprocess

import pytest

from tests.hook.escapes.ways_out import Outcome, escape
from tests.hook.root import PRELOAD, Root, compiled

pytestmark = pytest.mark.long
# A share of 2 GiB: the client sees that, and its request for 3 GiB is refused.
HELD = "2048 2"


@escape(
    "fork, vfork, clone or exec, before or after the card was used",
    Outcome.CLOSED,
    "a child has a ledger slot of its own; exec loads the hook anew",
)
@pytest.mark.parametrize("way", ["soname", "fork", "vfork", "clone", "exec"])
def test_every_kind_of_child_meets_the_share(root: Root, way: str) -> None:
    assert root.run("/bin/client", way, "3000") == HELD


def test_a_child_that_execs_after_its_parents_use_meets_the_share(root: Root) -> None:
    assert root.run("/bin/client", "parent", "1000").splitlines() == ["2048 0", "2048 0"]
    assert root.run("/bin/client", "parent", "1950").splitlines() == ["2048 0", "2048 2"]


def test_a_user_other_than_root_meets_the_share(root: Root) -> None:
    assert root.run("/bin/client", "soname", "3000", user=1234) == HELD


def test_the_selftest_holds_in_a_bare_root(root: Root) -> None:
    report = json.loads(root.run("/bin/gpustack-hook-selftest", "--json", "--quick"))
    assert report["problems"] == []


def test_an_image_with_nothing_in_etc_but_the_preload_works(root: Root) -> None:
    for path in (root.folder / "etc").iterdir():
        assert path.name in ("vcuda", "ld.so.preload", "cards.json")
    assert root.run("/bin/client", "soname", "100") == "2048 0"


def test_a_read_only_root_works(root: Root) -> None:
    # Everything, but for devices, the ledger's own mount and the simulated driver's state.
    script = (
        'mount --bind "$0" "$0" && for f in dev etc/vcuda/ledger var/lib/simgpu; do'
        ' mount --bind "$0/$f" "$0/$f"; done && mount -o remount,bind,ro "$0" &&'
        ' ! touch "$0/tmp/x" 2>/dev/null && exec chroot "$0" /bin/client soname 3000'
    )
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, str(root.folder)],
        check=False, capture_output=True, text=True, timeout=60,
        env={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    assert (result.stdout.strip(), result.returncode) == (HELD, 0), result.stderr


def test_programs_without_cuda_run_as_before(root: Root) -> None:
    with_hook = root.start("/bin/client", "path:/nowhere", "1")
    _, complaint = with_hook.communicate(timeout=30)
    assert with_hook.returncode == 3
    assert complaint.startswith("/nowhere: cannot open shared object file")


def test_a_preload_that_cannot_be_loaded_leaves_the_process_working(root: Root) -> None:
    (root.folder / PRELOAD).write_text("/nowhere/libvcuda.so\n")
    with root.start("/bin/client", "soname", "3000") as process:
        output, complaint = process.communicate(timeout=30)
    assert output.strip() == "8192 0"  # the reason that the agent looks at the maps of processes
    assert "cannot be preloaded" in complaint


def test_a_program_linked_with_now_binding_meets_the_share(
    root: Root, tmp_path: pathlib.Path, driver: pathlib.Path
) -> None:
    linked = compiled(
        tmp_path, "linked.c", "linked", "-Wl,-z,now", str(driver / "lib" / "libcuda.so.1")
    )
    root.add(linked)
    assert root.run("/bin/linked", "3000") == HELD
