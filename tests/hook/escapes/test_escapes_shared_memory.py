"""Memory that descriptors keep: charged while its maker has it, reported after that."""

import subprocess
import sys
import textwrap

import pytest

from tests.hook.container import CARD, CONTEXT_BYTES, MIB, ROOT, Container
from tests.hook.escapes.ways_out import Outcome, escape, first_line
from tests.hook.memory.families import FAMILIES, lost

pytestmark = pytest.mark.long


@escape(
    "Memory that its maker exported before it ended, held by processes that imported it",
    Outcome.REPORTED,
    "the maker's charge ends with it, and no importer can tell whether it lives. While a process"
    " keeps the descriptor open the driver shows the memory for none: the event UnexplainedUse on"
    " the node names card and amount, and no container; a container can take the whole card's"
    " memory so. Later it counts as unaccounted of the process that took it last",
)
def test_memory_whose_maker_ended_is_charged_to_no_process(container: Container) -> None:
    held = []
    for number in range(3):
        with container.start(MAKER.format(number=number)) as maker:
            assert first_line(maker) == "made"
            held.append(container.start(HOLDER.format(number=number)))
            assert first_line(held[-1]) == "imported"
            maker.communicate("\n", timeout=30)
    # one context each, of three processes that hold 5 GiB beside them, of a share of 2
    assert container.use().used_bytes == 3 * CONTEXT_BYTES
    assert lost(container) == 3 * (CONTEXT_BYTES + 1700 * MIB)
    assert shown_bytes(container) == dict.fromkeys((each.pid for each in held), CONTEXT_BYTES)
    assert unowned_bytes(container) == 3 * 1700 * MIB
    for holder in held:
        with holder:
            holder.communicate("\n", timeout=30)


@escape(
    "Virtual memory that is exported, and kept by a duplicate of the exported descriptor (dup,"
    " fork, or sent to another process) once its maker has closed that and released the memory",
    Outcome.REPORTED,
    "the charge ends with the descriptor that the export returned, for the hook is told of no"
    " duplicate: one process can take the whole card's memory so. The driver shows it for no"
    " process, and the event UnexplainedUse on the node names card and amount, and no container."
    " Once the process imports the duplicate, it counts as unaccounted, and MemoryAboveShare names"
    " what is above the share",
)
@pytest.mark.parametrize("imported", [False, True], ids=["kept", "imported"])
def test_a_duplicate_of_an_export_keeps_memory_uncharged(
    container: Container, *, imported: bool
) -> None:
    with container.start(FAMILIES + f"imported = {imported}\n" + DUPLICATES) as maker:
        assert first_line(maker) == "released"
        # four times half of a share of 2 GiB
        taken_bytes = 4 * 1000 * MIB
        assert container.use().used_bytes == CONTEXT_BYTES
        assert lost(container) == CONTEXT_BYTES + taken_bytes
        shown, unowned = (taken_bytes, 0) if imported else (0, taken_bytes)
        assert shown_bytes(container) == {maker.pid: CONTEXT_BYTES + shown}
        assert unowned_bytes(container) == unowned
        maker.communicate("\n", timeout=30)


def shown_bytes(container: Container) -> dict[int, int]:
    """Return what NVML says of the card's processes, by PID."""
    smi = str(container.simgpu.with_name("nvidia-smi"))
    environment = container.environment | {"LD_PRELOAD": ""}
    shown = subprocess.check_output(
        [smi, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        env=environment,
        text=True,
    )
    return {
        int(pid): int(mebibytes) * MIB
        for pid, mebibytes in (line.split(",") for line in shown.splitlines())
    }


def unowned_bytes(container: Container) -> int:
    """Return what the agent finds of the card that no process holds."""
    ask = "from gpustack.adapters.nvml import Nvml; nvml = Nvml(); nvml.inventory()"
    environment = container.environment | {"LD_PRELOAD": ""}
    command = [sys.executable, "-c", f"{ask}; print(nvml.unowned_bytes('{CARD}'))"]
    return int(subprocess.check_output(command, env=environment, cwd=ROOT, text=True))


MAKER = (
    FAMILIES
    + """
import socket
shared, listener = ctypes.c_int(), socket.create_server("{number}", family=socket.AF_UNIX)
call("cuMemExportToShareableHandle", byref(shared), created(1700 * MIB), 1, u64(0))
print("made", flush=True)
socket.send_fds(listener.accept()[0], [b"x"], [shared.value])
input()
"""
)
DUPLICATES = textwrap.dedent("""
    kept = []
    for _ in range(4):
        made, again, shared = created(1000 * MIB), u64(), ctypes.c_int()
        call("cuMemExportToShareableHandle", byref(shared), made, 1, u64(0))
        kept.append(os.dup(shared.value))
        os.close(shared.value)
        call("cuMemRelease", made)
        if imported:
            call("cuMemImportFromShareableHandle", byref(again), handle(kept[-1]), 1)
            os.close(kept.pop())
    stop("released")
""")
HOLDER = (
    FAMILIES
    + """
import socket
again, connection = handle(), socket.socket(socket.AF_UNIX)
connection.connect("{number}")
descriptor = socket.recv_fds(connection, 1, 1)[1][0]
call("cuMemImportFromShareableHandle", byref(again), handle(descriptor), 1)
stop("imported")
"""
)
