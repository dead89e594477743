"""The hook goes on with files of an older layout, and its build names those that it reads."""

import pathlib
import shutil

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped.two_slot_page import LAYOUT_VERSION, OLDEST_LAYOUT
from tests.hook.container import CONTEXT_BYTES, MIB, ROOT, SHARE_BYTES, Container, share

# Written by an agent and a hook of layout 1: a process had 100 MiB and a context, and was killed.
LAYOUT_1 = ROOT / "tests" / "data" / "mapped" / "layout-1"
FILES = ("limits", "activity", "ledger")
UNACCOUNTED_BYTES = 16 * MIB  # by its activity page


def test_files_of_layout_1_serve_as_before(container: Container) -> None:
    for name in FILES:
        shutil.copy(LAYOUT_1 / f"{name}.bin", container.folder / name)
    room = SHARE_BYTES - UNACCOUNTED_BYTES - CONTEXT_BYTES
    source = f"""
        enter()
        assert allocate({room} + 1)[0] == 2
        check(allocate({room})[0])
        print(info(), flush=True)
        input()
        assert allocate(1)[0] == 2
        print(flush=True)
        input()
    """
    with container.start(source) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdin is not None
        assert tenant.stdout.readline() == f"{(0, SHARE_BYTES)}\n"
        assert container.use().used_bytes == SHARE_BYTES - UNACCOUNTED_BYTES
        mapped.publish_limits(container.folder / "limits", share(SHARE_BYTES // 2))
        tenant.stdin.write("\n")
        tenant.stdin.flush()
        assert tenant.stdout.readline() == "\n"
        (slot,) = mapped.read_ledger(container.folder / "ledger").slots
        assert (slot.limits_generation, slot.activity_generation) == (None, None)
        tenant.communicate("\n", timeout=30)
    assert container.use().used_bytes == 0
    for name in FILES:
        assert mapped.read_layout(container.folder / name) == 1


def test_the_agent_reads_which_pages_a_process_has_applied(container: Container) -> None:
    source = "enter(); print(flush=True); input(); allocate(1); print(flush=True); input()"
    with container.start(source) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdin is not None
        tenant.stdout.readline()
        for generation in (1, 2):
            (slot,) = mapped.read_ledger(container.folder / "ledger").slots
            assert (slot.limits_generation, slot.activity_generation) == (generation, 1)
            mapped.publish_limits(container.folder / "limits", share(SHARE_BYTES // 2))
            if generation == 1:
                tenant.stdin.write("\n")
                tenant.stdin.flush()
                tenant.stdout.readline()
        tenant.communicate("\n", timeout=30)


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_a_build_names_the_layouts_that_it_reads(build: pathlib.Path, arch: str) -> None:
    named = [int(word) for word in (build / arch / "layouts").read_text().split()]
    assert named == list(range(OLDEST_LAYOUT, LAYOUT_VERSION + 1))
