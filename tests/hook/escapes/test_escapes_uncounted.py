"""Processes without a place in a ledger: by their maps they are hooked, or they have no share."""

import pathlib

import pytest

from gpustack.adapters import mapped
from tests.agent.activity import activity
from tests.hook.container import CONTEXT_BYTES, MIB
from tests.hook.escapes.ways_out import Outcome, escape, first_line, judged, own_share, reports_of
from tests.hook.root import HOOK_PATH, LIBRARIES, Root, compiled

pytestmark = pytest.mark.long
FREE = "8192 0"  # sees the card; 3 GiB are granted


@escape(
    "LD_PRELOAD=libcuda.so.1 with a program that is linked with the driver",
    Outcome.REPORTED,
    "the driver then stands before the hook, and the program's calls go to it directly. The"
    " process maps the hook, and the event UncountedProcess says that it holds no place in the"
    " ledger. Its memory is counted as unaccounted; its GPU time is not limited, but said"
    " (ShareExceeded)",
)
def test_a_preloaded_driver_stands_before_the_gates(
    root: Root, tmp_path: pathlib.Path, driver: pathlib.Path
) -> None:
    root.add(compiled(tmp_path, "linked.c", "linked", str(driver / "lib" / "libcuda.so.1")))
    preload = {"LD_PRELOAD": f"/{LIBRARIES}/libcuda.so.1"}
    with root.start("/bin/linked", "3000", "hold", environment=preload) as client:
        assert first_line(client) == FREE
        assert reports_of(root, client.pid) == []
        seen_bytes = root.seen_bytes(client.pid)
        assert seen_bytes == CONTEXT_BYTES + 3000 * MIB
        assert judged(root.folder / "etc/vcuda", [client.pid], seen_bytes) == (
            ["UncountedProcess", "MemoryAboveShare"],
            seen_bytes,
        )
        client.communicate("\n", timeout=30)


@escape(
    "A program without the hook that maps the hook's file and those of its container as data",
    Outcome.REPORTED,
    "the agent looks for these files in the process's maps, and finds them; the event"
    " UncountedProcess says that it holds no place in the ledger. Its memory is counted as"
    " unaccounted; its GPU time is not limited, but said"
    " (ShareExceeded)",
)
def test_files_mapped_as_data_pass_for_the_hook(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "decoy.c", "decoy", "-static"))
    files = (f"/{HOOK_PATH}", *(f"/etc/vcuda/{name}" for name in mapped.FORMS))
    with root.start("/bin/decoy", *files) as client:
        assert first_line(client) == "up"
        ours = own_share(root, tmp_path / "share")
        assert reports_of(root, client.pid, share=ours) == []
        assert judged(ours.folder, [client.pid], 0) == (["UncountedProcess"], 0)
        client.communicate("\n", timeout=30)


@escape(
    "A container without a share, of the same pod or another's, that uses the card by descriptors"
    " which a container with a share has opened and handed to it",
    Outcome.REPORTED,
    "it needs no right to the device nodes, and has neither hook nor limits. The event"
    " UnexplainedUse on the node names card and container at the third look that finds it, also"
    " when the card is another pod's by then; the container has the whole card, memory and time,"
    " and `on_violation` doesn't end it",
)
def test_descriptors_in_a_container_without_a_share_are_reported(tmp_path: pathlib.Path) -> None:
    with activity.stage(tmp_path) as stage:
        stage.share("taker")
        sidecar = stage.cri.run("uid-taker", "sidecar")
        stage.process(sidecar, memory_bytes=60 << 30, maps=())
        for _ in range(3):
            stage.sampler.look()
        assert [event.reason for event in stage.events] == ["UnexplainedUse"]


@escape(
    "Calls of the driver's device nodes (ioctl), without any library of the driver's or ours",
    Outcome.REPORTED,
    "nothing stands before the kernel's driver. The event UnhookedProcess names the process, its"
    " memory counts as unaccounted, and ShareExceeded names its GPU time, which is not limited",
)
def test_a_process_that_asks_the_kernels_driver_alone_is_reported(tmp_path: pathlib.Path) -> None:
    with activity.stage(tmp_path) as stage:
        taker = stage.share("taker")
        stage.process(taker, memory_bytes=60 << 30, maps=())
        for _ in range(3):
            stage.sampler.look()
        reasons = {event.reason for event in stage.events}
        assert reasons == {"UnhookedProcess", "MemoryAboveShare"}
        assert stage.sampler.memory.total_bytes() == 60 << 30
