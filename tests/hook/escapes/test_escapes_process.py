"""Ways past the gates inside a hooked process: closed, or counted against the share."""

import pathlib
import subprocess
import textwrap

import pytest

from gpustack.adapters import mapped
from gpustack.agent.activity.unaccounted import MemorySample, UnaccountedMemory
from tests.hook.container import CARD, CONTEXT_BYTES, MIB, Container
from tests.hook.escapes.ways_out import (
    SHARE,
    Outcome,
    escape,
    judged,
    reports_of,
    unaccounted_bytes,
)
from tests.hook.memory.families import FAMILIES, lost
from tests.hook.root import LIBRARIES, Root, compiled
from tests.hook.test_hook import run_program

pytestmark = pytest.mark.long
HELD = "2048 2"
FREE = "8192 0"
COUNTED = "memory that the driver sees outside the ledgers (unaccounted) counts against the share"


def assert_counted(root: Root, client: "subprocess.Popen[str]") -> None:
    """Check that the agent finds every byte of a client with 3 GiB past the gates."""
    with client:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == FREE
        assert reports_of(root, client.pid) == []  # it does map the hook
        assert unaccounted_bytes(root, client.pid) == CONTEXT_BYTES + 3000 * MIB
        client.communicate("\n", timeout=30)


@escape("A plug-in opened with RTLD_DEEPBIND, which gets libc's dlsym", Outcome.REPORTED, COUNTED)
def test_deepbound_plugins_are_counted(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "plugin.c", "plugin.so", "-shared", "-fPIC"))
    assert_counted(root, root.start("/bin/client", "plugin:/bin/plugin.so", "3000", "hold"))


@escape("Walking the library's symbol table by hand", Outcome.REPORTED, COUNTED)
def test_walks_are_counted(root: Root) -> None:
    assert_counted(root, root.start("/bin/client", "walk", "3000", "hold"))


@escape(
    "dlmopen: the driver in a namespace of its own",
    Outcome.REPORTED,
    COUNTED,
)
def test_other_namespaces_are_counted(root: Root) -> None:
    assert_counted(root, root.start("/bin/client", "namespace", "3000", "hold"))


@escape(
    "A copy of libcuda.so.1 under another name",
    Outcome.CLOSED,
    "the SONAME inside the file decides",
)
def test_a_copied_driver_is_gated(root: Root) -> None:
    copy = root.folder / "tmp/libmine.so"
    copy.write_bytes((root.folder / LIBRARIES / "libcuda.so.1").read_bytes())
    assert root.run("/bin/client", "path:/tmp/libmine.so", "3000") == HELD


@escape("A copy of libcuda.so.1 with a patched SONAME", Outcome.REPORTED, COUNTED)
def test_a_renamed_driver_is_counted(root: Root) -> None:
    real = (root.folder / LIBRARIES / "libcuda.so.1").read_bytes()
    (root.folder / "tmp/libmine.so").write_bytes(real.replace(b"libcuda.so.1\0", b"libmine.so.1\0"))
    assert_counted(root, root.start("/bin/client", "path:/tmp/libmine.so", "3000", "hold"))


@escape(
    "More copies of the driver than the hook tells apart",
    Outcome.CLOSED,
    "the fifth and later copies don't have the gated functions",
)
def test_many_copies_of_the_driver_are_gated(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "crowd.c", "crowd"))
    copies = [f"/tmp/{number}/libcuda.so.1" for number in range(6)]
    for copy in copies:
        root.add(root.folder / LIBRARIES / "libcuda.so.1", into=str(pathlib.Path(copy[1:]).parent))
    assert root.run("/bin/crowd", *copies).split() == [*["2"] * 4, *["none"] * 2]


@escape(
    "CUDA graphs: allocation nodes and launches",
    Outcome.CLOSED,
    "graphs are charged when they are instantiated, uploaded and launched",
)
def test_graphs_are_gated(container: Container) -> None:
    answers = container.client(
        FAMILIES
        + textwrap.dedent("""
        for sizes in (3000,), (1000, 1500), (1000, 900):
            graph = graph_of(*(each * MIB for each in sizes))
            print(cuda.cuGraphUpload(graph, None), cuda.cuGraphLaunch(graph, None))
        print(info()[0] // MIB)
        """)
    )
    assert answers.splitlines() == ["2 2", "2 2", "0 0", "984"]


@escape(
    "Virtual memory that is exported and imported by the exported descriptor itself, while its"
    " maker lives",
    Outcome.CLOSED,
    "its maker is charged, and its importer is not charged a second time; memory that the"
    " descriptor of its last export keeps stays charged while that is open. For a duplicate of it"
    " see below",
)
def test_memory_is_charged_to_its_maker_and_not_to_its_importer(container: Container) -> None:
    free = container.client(
        FAMILIES
        + textwrap.dedent("""
        print(cuda.cuMemCreate(byref(u64()), size(3000 * MIB), DEVICE, u64(0)))
        made, again, shared = created(1000 * MIB), u64(), ctypes.c_int()
        call("cuMemExportToShareableHandle", byref(shared), made, 1, u64(0))
        call("cuMemImportFromShareableHandle", byref(again), handle(shared.value), 1)
        print(info()[0] // MIB)
        call("cuMemRelease", made)
        call("cuMemRelease", again)
        print(info()[0] // MIB)
        os.close(shared.value)
        print(info()[0] // MIB)
        """)
    )
    assert free.splitlines() == ["2", "984", "984", "1984"]


@escape(
    "Private entries of the driver by cuGetExportTable",
    Outcome.OUT_OF_SCOPE,
    "the tables have no names and differ between drivers; CUDA's own runtime needs them."
    " Memory taken so is counted as unaccounted",
)
def test_export_tables_are_left_alone(gated: frozenset[str]) -> None:
    assert "cuGetExportTable" not in gated


@escape(
    "Memory past the gates that is taken and released every few seconds",
    Outcome.REPORTED,
    "what was there at three of the last ten samples, which come at odd moments about once a"
    " second, counts as unaccounted, and the event MemoryAboveShare names what stays above the"
    " share. What a container holds for less than two seconds of ten mostly shows in neither",
)
@pytest.mark.parametrize("moved", [False, True], ids=["at rest", "with a charge at each sample"])
def test_memory_released_in_between_is_counted(*, moved: bool) -> None:
    samples = UnaccountedMemory()
    found = [
        samples.add(
            SHARE.owner,
            CARD,
            MemorySample(seen_bytes=seen, charged_bytes=0, share_bytes=1 << 30, moved=moved),
        )
        for seen in (5 << 30, 5 << 30, 0) * 20
    ]
    assert min(found[4:]) == (4 << 30 if moved else 5 << 30)
    assert samples.above_bytes_of(SHARE.owner, CARD) == 4 << 30


@escape(
    "Modules with large global variables, or many of them",
    Outcome.REPORTED,
    "no call says what a module takes before it is loaded: images are compressed, or compiled by"
    " the driver, and cuMemGetInfo moves with the neighbours. After three looks their memory counts"
    " as unaccounted, so that no further request is granted, and the event MemoryAboveShare names"
    " what they take above the share: up to what the card has left",
)
def test_modules_beyond_the_share_are_counted_and_said(container: Container) -> None:
    with container.start(FAMILIES + MODULES) as client:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == "loaded"
        seen_bytes = lost(container)
        assert seen_bytes == CONTEXT_BYTES + 1900 * MIB + 300 * 2 * MIB
        events, unaccounted = judged(container.folder, [client.pid], seen_bytes)
        assert events == ["MemoryAboveShare"]
        assert unaccounted == 300 * 2 * MIB
        client.communicate("\n", timeout=30)


MODULES = """
assert allocate(1900 << 20)[0] == 0
for _ in range(300):
    call("cuModuleLoadData", byref(handle()), b"module\\0")
stop("loaded")
"""


@escape(
    "A seccomp filter that answers the hook's lock requests with success",
    Outcome.REPORTED,
    "each of the container's processes is then granted the share, as none holds a place in the"
    " ledger for the others to count; the event UncountedProcess names them, and after three looks"
    " all of their memory counts as unaccounted, so that no further request is granted",
)
def test_processes_with_locks_that_do_not_hold_are_counted(container: Container) -> None:
    held = [container.start(NO_LOCKS + ALLOCATE) for _ in range(2)]
    for each in held:
        assert each.stdout is not None
        assert each.stdout.readline().strip() == "0"
    reading = mapped.read_ledger(container.folder / "ledger")
    assert (reading.slots, reading.charged_bytes(CARD)) == ((), 0)
    assert lost(container) == 2 * (CONTEXT_BYTES + 1800 * MIB)
    seen_bytes = lost(container)
    events, unaccounted = judged(container.folder, [each.pid for each in held], seen_bytes)
    assert events == ["UncountedProcess", "MemoryAboveShare"]
    assert unaccounted == seen_bytes
    for each in held:
        with each:
            each.communicate("\n", timeout=30)


ALLOCATE = """
enter()
print(allocate(1800 << 20)[0], flush=True)
input()
"""
# F_OFD_SETLK (37), and F_SETLK (6) of the descriptor that the hook keeps, whose number is high.
NO_LOCKS = """
import struct
def step(code, then, otherwise, value): return struct.pack("<HBBI", code, then, otherwise, value)
LOAD, EQUAL, AT_LEAST, ANSWER = 0x20, 0x15, 0x35, 0x06
steps = [
    step(LOAD, 0, 0, 0), step(EQUAL, 0, 5, 72),  # fcntl
    step(LOAD, 0, 0, 24), step(EQUAL, 4, 0, 37),
    step(EQUAL, 0, 2, 6), step(LOAD, 0, 0, 16), step(AT_LEAST, 1, 0, 256),
    step(ANSWER, 0, 0, 0x7FFF0000), step(ANSWER, 0, 0, 0x00050000),  # allow; errno 0
]
program = ctypes.create_string_buffer(b"".join(steps))
filters = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(program))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, filters, 0, 0) == 0  # PR_SET_SECCOMP
"""


@escape(
    "A libcuda.so.1 of the tenant's own that runs the hook's callbacks on the caller's thread",
    Outcome.CLOSED,
    "the hook has none: the program's callbacks go to the driver as they are, and a launch in one"
    " is charged and waits like any other. CUDA forbids such launches",
)
def test_the_hook_gates_no_callbacks(build: pathlib.Path) -> None:
    hook = build / "x86_64" / "libvcuda.so"
    listed = subprocess.check_output(["nm", "-D", "--defined-only", hook], text=True)
    gated = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    assert "cuLaunchKernel" in gated  # the list is one
    assert not {name for name in gated if "LaunchHostFunc" in name or "AddCallback" in name}


@escape(
    "Launches, stream-ordered requests and frees on a stream whose capture another thread begins or"
    " ends at that moment",
    Outcome.CLOSED,
    "the begin and the end of a capture wait for the calls that went by the stream's state: nothing"
    " that was let pass as part of a graph runs, or takes memory, by itself",
)
def test_no_capture_changes_under_a_call(build: pathlib.Path) -> None:
    run_program(build, "no_capture_changes_under_a_call")


@escape(
    "A struct of a request or a launch that another thread changes while the driver is called, or"
    " the place of its answer",
    Outcome.CLOSED,
    "the gate reads a struct once, into its own memory, which the driver gets; and the driver"
    " answers there: what was charged is what the driver gives",
)
@pytest.mark.parametrize(
    "program",
    ["requests_are_read_once", "answers_are_the_drivers", "a_launch_is_the_one_that_was_asked"],
)
def test_requests_and_answers_are_read_once(build: pathlib.Path, program: str) -> None:
    run_program(build, program)


@escape(
    "A context that one thread ends while another retains it, or makes the next one",
    Outcome.CLOSED,
    "the one that was made anew is charged: its record isn't dropped with that of the one before",
)
def test_a_context_is_charged_once(build: pathlib.Path) -> None:
    run_program(build, "a_context_is_charged_once")
