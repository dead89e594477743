"""Unmodified clients under the hook on the simulated driver, with the files the agent writes."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped import activity, ledger, two_slot_page
from tests.hook.container import (
    CARD,
    CLIENT,
    CONTEXT_BYTES,
    MIB,
    SHARE_BYTES,
    Container,
    share,
)


def test_the_card_itself_is_charged_no_more_than_the_share(container: Container) -> None:
    output = container.client(
        f"""
        enter()
        free, total = info()
        assert total == {SHARE_BYTES}, total
        assert free == {SHARE_BYTES - CONTEXT_BYTES}, free
        assert allocate(free + 1)[0] == 2
        result, pointer = allocate(free)
        assert result == 0
        assert allocate(1)[0] == 2
        assert info() == (0, total)
        check(cuda.cuMemFree_v2(pointer))
        print(info()[0])
        """
    )
    assert output == str(SHARE_BYTES - CONTEXT_BYTES)
    assert container.use() == ledger.CardUse(uuid=CARD)


def test_a_neighbour_is_unaffected_by_a_tenant_at_its_limit(
    container: Container, build: pathlib.Path, driver: pathlib.Path
) -> None:
    neighbour = Container(container.folder.parent / "neighbour", build, driver)
    fill = f"enter(); check(allocate({SHARE_BYTES - CONTEXT_BYTES})[0]); print('full', flush=True)"
    with container.start(fill + "\ninput()") as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == "full\n"
        assert neighbour.client(fill) == "full"
        assert container.use().used_bytes == SHARE_BYTES
        assert neighbour.use().used_bytes == 0
        tenant.communicate("\n", timeout=30)


def test_the_agent_reads_a_process_from_the_ledger_until_it_is_killed(container: Container) -> None:
    with container.start("enter(); check(allocate(100 << 20)[0]); print(); input()") as tenant:
        assert tenant.stdout is not None
        tenant.stdout.readline()
        reading = mapped.read_ledger(container.folder / "ledger")
        assert [slot.pid for slot in reading.slots] == [tenant.pid]
        assert reading.cards[0].used_bytes == CONTEXT_BYTES + 100 * MIB
        assert reading.cards[0].contexts == 1
        environment = container.environment | {"LD_PRELOAD": ""}
        shown = subprocess.check_output([container.simgpu, "show"], env=environment, text=True)
        assert f": {reading.cards[0].used_bytes} of" in shown  # the ledger says what the card lost
        tenant.send_signal(signal.SIGKILL)
        tenant.wait(timeout=30)
        assert container.use() == ledger.CardUse(uuid=CARD)


def test_the_agent_reads_a_ledger_on_overlayfs_bound_into_a_container(
    container: Container, overlay: pathlib.Path
) -> None:
    mapped.create_ledger(overlay / "ledger", [CARD])
    source = "enter(); check(allocate(100 << 20)[0]); print(flush=True); input()"
    command = [sys.executable, "-c", CLIENT + source]
    namespaces = ["unshare", "--mount", "--pid", "--fork"]
    bound = ["sh", "-c", 'mount --bind "$0" ledger && exec "$@"', str(overlay / "ledger")]
    with subprocess.Popen(
        [*namespaces, *bound, *command],
        cwd=container.folder,
        env=container.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == "\n"
        reading = mapped.read_ledger(overlay / "ledger")
        assert [slot.pid for slot in reading.slots] == [1]  # as the container's namespace has it
        assert reading.cards[0].used_bytes == CONTEXT_BYTES + 100 * MIB
        assert container.use() == ledger.CardUse(uuid=CARD)  # below the mount
        tenant.communicate("\n", timeout=30)
    assert tenant.returncode == 0
    assert mapped.read_ledger(overlay / "ledger").cards == (ledger.CardUse(uuid=CARD),)


def test_a_limit_that_the_agent_changes_holds_at_once(container: Container) -> None:
    source = """
        enter()
        for _ in range(2):
            result, pointer = allocate(3000 << 20)
            print(result, info()[1] >> 20, flush=True)
            input()
        """
    with container.start(source) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == "2 2048\n"
        mapped.publish_limits(container.folder / "limits", share(4096 * MIB))
        assert tenant.stdin is not None
        tenant.stdin.write("\n")
        tenant.stdin.flush()
        assert tenant.stdout.readline() == "0 4096\n"
        tenant.communicate("\n", timeout=30)


def test_memory_that_no_ledger_explains_counts_against_the_share(container: Container) -> None:
    seen = activity.CardActivity(uuid=CARD, unaccounted_bytes=500 * MIB)
    mapped.publish_activity(
        container.folder / "activity", activity.Activity(sampled_ns=1, cards=(seen,))
    )
    rest = SHARE_BYTES - CONTEXT_BYTES - 500 * MIB
    assert container.client(f"enter(); print(info()[0], allocate({rest + 1})[0])") == f"{rest} 2"


def test_unmodified_nvidia_smi_shows_the_share(container: Container, driver: pathlib.Path) -> None:
    query = ["--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"]
    with container.start("enter(); print(); input()") as tenant:
        assert tenant.stdout is not None
        tenant.stdout.readline()
        result = container.run(str(driver / "bin" / "nvidia-smi"), *query)
        tenant.communicate("\n", timeout=30)
    assert result.stdout.replace(" ", "") == "2048,64\n"


def test_a_ledger_that_the_tenant_cut_is_refused_and_not_mapped(container: Container) -> None:
    os.truncate(container.folder / "ledger", 100)
    with pytest.raises(two_slot_page.LayoutError, match="100 bytes"):
        mapped.read_ledger(container.folder / "ledger")
    assert (
        container.client("print(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))") == "800"
    )
