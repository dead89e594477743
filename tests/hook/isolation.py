"""Writes docs/isolation.md from the rows of the tests: python -m tests.hook.isolation."""

import importlib
import pathlib
import sys
from collections.abc import Iterable
from typing import Final

from tests.hook.container import ROOT
from tests.hook.escapes.ways_out import FOUND, Escape, Outcome

PAGE: Final = ROOT / "docs" / "isolation.md"

HEAD: Final = """\
<!-- Made by `python -m tests.hook.isolation` from the tests that it names: change those. -->
# What a share holds against

The hook lives in the tenant's own processes. It holds the limits of programs that don't know of
it, in any language and for any way of finding the driver. A program that is written to get round
it can: some ways are closed, some show from the host, where no tenant reaches, and some are open.
All of this was tried on a simulated card; no real card has run it yet.

- **UnhookedProcess**: an Event on the pod. The agent looks at the memory maps of every process
  that the driver sees on a shared card, when it starts a program and again every two minutes at
  the latest; the Event names a process that doesn't map our `libvcuda.so` (the file, not its name).
- **ForeignLimits**: an Event on the pod. The same look finds a process that maps the hook without
  limits, activity page and ledger of its container: it uses files of its own, or goes round the
  hook.
- **LedgerDamaged**: an Event on a pod with a container that wrote over its own accounting, or
  changed the mode or size of that file, which the agent restores within two seconds, or when
  a write of the container to it ends that keeps the kernel waiting, or gave it another owner.
- **MemoryAboveShare**: an Event on a pod with a container that the driver has seen, at three of the
  last ten looks, with more memory than its share and what modules commonly need (256 MiB, or a
  sixteenth of the share).
- **UncountedProcess**: an Event on a pod whose processes on a card are more than the places in its
  ledger that processes hold, at three of the last ten looks.
- **UnexplainedUse**: an Event on the node with a card of which more than 512 MiB are in use, at
  three of the last ten looks, that the driver shows for no process, or for the PID of a process
  of another container than now; with 3 s of GPU time and 3 points for such a PID, or for one whose
  process had ended before the agent saw it; or with a container that has processes there, which no
  record gives the card; or with processes whose container the kernel doesn't tell, because the path
  of their cgroup is too long. Memory is told again every 600 looks, and as soon as it has doubled.
- **ShareExceeded**: an Event on a pod with a container that had 3 s of GPU time beyond its share
  and 3 points, as the driver counts. Where `collect_gpu_time` says that this count is good, the
  container's launches wait until that is paid, and it has the card in slices from then on. Where
  it doesn't, which is the default, only time counts that the ledgers of the card's other
  containers don't claim.
- **OldPage**: an Event on a pod with a process that has launched, before two looks in a row, more
  than a second after its activity page was replaced, and hasn't noted in the ledger that it goes by
  the new one. A process may note what it likes: this finds a hook that is stuck, not a liar.
- What the agent does besides is its setting `on_violation`: a container that it finds past its
  limits has no burst by default, or ends with its pod (`kill`);
  [the agent's reference](reference/agent.md) has a table. Nothing holds the launches of a process
  that asks no page of the agent's: freezing its cgroup was tried, and doesn't
  ([decision 16](decisions/0016-acting-on-violations.md)), so only `kill` ends it.
- An Event is there for an hour. What lasts, or was found in the last ten minutes, stands at its pod
  on the extender's page, in `gpustack get pods` and in `gpustack explain POD`
  ([the node's annotation](reference/nodes.md) has it); UnexplainedUse, which is no pod's, doesn't,
  but comes again while that memory stays, or processes that no record gives the card.
- **unaccounted**: memory that the driver sees of a container, outside its ledger. It
  counts against the share, so that the container's next honest request is refused, and it is a
  metric.

*Closed*: the limit holds. *Reported*: a tenant passes it, and the host sees that. *Open*: a tenant
passes it without an event; the row names what a tenant can take. *Out of scope*: not gated, or not
by us; the row gives the reason. As long as rows are open, shares fit tenants that trust each other
not to attack: give whole cards to a tenant that you don't trust.

| way out | outcome | how | shown by |
|---|---|---|---|
"""

# Ways that need a card, a privilege that voids every limit or another runtime: no test tries them.
OPEN: Final = (
    (
        "GPU time without a charge, while another container's ledger on the card claims as much,"
        " one that its user has there, too; or by a program that no sample of the driver's meets",
        "without `collect_gpu_time` the driver's count may err, and claims count against no other"
        " container; what no sample shows is taken for a neighbour's, which ShareExceeded names"
        " and whose hook holds it back. The event for a process's maps comes, if it has no hook",
    ),
    (
        "A program without the hook that maps its files as data, takes a place in the ledger and"
        " writes a charge there",
        "it passes for a hooked one: no event comes while memory and time stay below the share."
        " Memory that it doesn't charge is counted as unaccounted; its GPU time is not limited, and"
        " named by ShareExceeded",
    ),
    (
        "A lease (fcntl F_SETLEASE) by the container's root on the files of hook and driver, while"
        " the agent restarts on a host that gives leases (`gpustack_agent_refuse_leases: false`)",
        "other tenants' programs that start meanwhile wait for up to 45 s (the kernel's"
        " fs.lease-break-time). While the agent runs it has these files open, and the kernel gives"
        " no lease that would keep a reader waiting",
    ),
    (
        "Locks (fcntl) by the thousand on the files that are mounted into a container",
        "the kernel goes through all of them whenever a process closes the file: through 60 000,"
        " which take a minute and a half, in 33 ms. On the files of hook and driver that slows down"
        " the start of other tenants' programs. A ledger with so many is left alone for 10 s"
        " (LedgerDamaged), and one that takes 10 ms comes last: all take 0.1 s of a look at most",
    ),
)
"""Reviewers tried these; no test of an attack on the simulated card shows them yet."""

DECLARED: Final = (
    (
        "MIG instances",
        "not supported: the agent tells a card with MIG on as unhealthy (MigEnabled), and no pod"
        " gets it",
    ),
    (
        "Launches by the device: dynamic parallelism, device graphs, a kernel that never ends",
        "the host's side sees no call; their time counts as that of the kernel that launches them,"
        " and a card runs nothing else while a kernel that fills it does",
    ),
    (
        "Work of the driver itself: page migration of managed memory",
        "not charged: it has no launch",
    ),
    (
        "MPS: one server's process for all",
        "no container is given the server's sockets. The hook limits the clients of a container's"
        " own server as other processes; the agent counts those that the driver shows",
    ),
    (
        "Cards whose memory is a NUMA node of the host (Grace Hopper)",
        "every process of the host takes it by malloc, without the driver. Give no shares of one",
    ),
    (
        "Memory of Vulkan, OpenGL, OptiX, or the video engines",
        "not gated; the driver volume brings what CUDA needs. What NVML shows of such a process"
        " counts against the share, and the event UncountedProcess names it",
    ),
    (
        "What a card does as a whole, by NVML: samples, counters (GPM), events, private tables",
        "neighbours share that condition, and it names none of them. Lists of processes, memory and"
        " utilisation show the tenant its own; nvidia-smi's process table is the driver's",
    ),
    (
        "gVisor, Kata and other runtimes with a kernel of their own",
        "their processes aren't the host's, so neither the preload nor the agent meets them; shares"
        " are for runtimes that start processes of the host's own kernel (runc, crun)",
    ),
    (
        "ptrace, LD_AUDIT, or any code that changes the process it runs in",
        "as strong as walking the symbol table by hand, and counted in the same way",
    ),
    (
        "Privileged containers, hostPath volumes, SYS_ADMIN or SYS_PTRACE",
        "they own the host, and unmount or replace any file: Pod Security forbids them",
    ),
)

_PROCESS: Final = "tests/hook/escapes/test_escapes_process.py"
_COMPUTE: Final = "tests/hook/escapes/test_compute_escapes.py"
_UNCOUNTED: Final = "tests/hook/escapes/test_escapes_uncounted.py"
TRIALS: Final = (
    ("E1", "tests/hook/escapes/test_escapes_files.py::test_a_cleared_sum_grants_nothing"),
    ("E2", f"{_COMPUTE}::test_a_zeroed_debt_is_paid_by_the_agents_account"),
    ("E3", f"{_PROCESS}::test_the_hook_gates_no_callbacks"),
    ("E4", f"{_COMPUTE}::test_kernels_of_ended_processes_are_paid_for"),
    ("E5", f"{_COMPUTE}::test_kernels_that_are_long_where_nothing_measures_are_paid_for"),
    (
        "E6",
        "tests/hook/escapes/test_escapes_shared_memory.py"
        "::test_memory_whose_maker_ended_is_charged_to_no_process",
    ),
    (
        "E7",
        "tests/hook/escapes/test_escapes_loader.py::test_functions_in_libcs_place_change_nothing",
    ),
    (
        "E8",
        "tests/hook/escapes/test_escapes_open.py"
        "::test_real_files_beside_own_ones_show_by_what_is_used",
    ),
    ("E9", f"{_UNCOUNTED}::test_files_mapped_as_data_pass_for_the_hook"),
    (
        "E10",
        "tests/hook/escapes/test_escapes_loader.py"
        "::test_a_process_whose_main_thread_has_ended_is_seen",
    ),
    ("E11", f"{_UNCOUNTED}::test_a_preloaded_driver_stands_before_the_gates"),
    ("E12", f"{_PROCESS}::test_memory_released_in_between_is_counted"),
    ("E13", f"{_PROCESS}::test_modules_beyond_the_share_are_counted_and_said"),
    ("E14", f"{_PROCESS}::test_processes_with_locks_that_do_not_hold_are_counted"),
)
"""Ways out that reviewers tried first, by their letters, and the test of each, which has a row."""

HONEST: Final = (
    (
        "H1",
        "kernels of 200 us and copies of 5 ms, on an idle card",
        "holds",
        "tests/gpu/test_victims.py::test_a_tenant_that_copies_is_held_back_for_its_kernels_only",
    ),
    (
        "H2",
        "a faked clock that is an hour ahead",
        "holds",
        "tests/hook/escapes/test_escapes_open.py::test_a_clock_ahead_neither_pays_nor_makes_debt",
    ),
    (
        "H3",
        "a neighbour whose processes have tens of thousands of mappings",
        "holds: looks at maps take a bounded time, and come in turn",
        "tests/agent/activity/test_idle_cost.py"
        "::test_containers_whose_maps_take_long_are_looked_at_in_turn",
    ),
    (
        "H4",
        "30 % beside 70 %, kernels of 1 and of 5 ms, by spans of two seconds after the first two",
        "holds, within 8 points",
        "tests/gpu/test_victims.py::test_spans_of_two_seconds_are_near_the_shares",
    ),
    (
        "H6",
        "the 257th process on a card, or one without a free descriptor",
        "refused with CUDA_ERROR_NOT_PERMITTED (800), and served once there is a place or a"
        " descriptor: a ledger has 256 places",
        "hook/tests/processes/test_processes_without_a_place_are_refused.c",
    ),
)
"""Honest programs that were harmed once: a letter, what they do, what holds now, and the test."""

MODULES: Final = (
    "test_escapes_loader",
    "test_processes",
    "test_escapes_process",
    "test_escapes_shared_memory",
    "test_escapes_uncounted",
    "test_escapes_files",
    "test_escapes_open",
    "test_compute_escapes",
)


def escapes() -> list[Escape]:
    """Return the rows of the tests, in the order in which the tests stand."""
    for name in MODULES:
        importlib.import_module(f"tests.hook.escapes.{name}")
    tried = sorted(FOUND, key=lambda each: MODULES.index(each.test.partition(".")[0]))
    return sorted(tried, key=lambda each: list(Outcome).index(each.outcome))


def page() -> str:
    """Return the page's text."""
    said = [
        *escapes(),
        *(Escape(way=way, outcome=Outcome.OPEN, why=why, test="") for way, why in OPEN),
        *(Escape(way=way, outcome=Outcome.OUT_OF_SCOPE, why=why, test="") for way, why in DECLARED),
    ]
    said.sort(key=lambda each: list(Outcome).index(each.outcome))
    rows = [
        (each.way, each.outcome.value, each.why, f"`{each.test}`" if each.test else "")
        for each in said
    ]
    return HEAD + _rows(rows) + FOOT + _trials()


def _rows(rows: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _trials() -> str:
    """Return what became of each trial that has a letter."""
    known = {each.test: each for each in escapes()}
    tried = [(letter, known[test.rpartition("/")[2]], test) for letter, test in TRIALS]
    rows = [(letter, each.way, each.outcome.value, f"`{test}`") for letter, each, test in tried]
    return (
        LETTERS
        + _rows(rows)
        + _rows((letter, what, state, f"`{test}`") for letter, what, state, test in HONEST)
    )


LETTERS: Final = """
## The first trials, by letter
Reviewers took a share's limits apart: E are attacks, H honest programs that were harmed (there
is no H5). Each has a test that shows its state; nothing of it has run on a real card.

| trial | what it does | state | shown by |
|---|---|---|---|
"""

FOOT: Final = "\nThe tests lie in `tests/hook/escapes`; `pytest tests/hook/escapes` runs them.\n"


def main(target: pathlib.Path = PAGE) -> None:
    """Write the page."""
    target.write_text(page())
    print(
        f"{target}: {len(escapes())} ways out tried, {len(OPEN) + len(DECLARED)} declared",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
