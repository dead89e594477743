"""Writes docs/isolation.md from the rows of the tests: python -m tests.hook.isolation."""

import importlib
import pathlib
import sys
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
  the limits and the ledger of its container: it uses files of its own, or goes round the hook.
- **LedgerDamaged**: an Event on a pod with a container that wrote over its own accounting, or
  changed the mode, owner or size of that file, which the agent restores within two seconds, or when
  a write of the container to it ends that keeps the kernel waiting.
- **MemoryAboveShare**: an Event on a pod with a container that the driver has seen, at three of the
  last ten looks, with more memory than its share and what modules commonly need (256 MiB, or a
  sixteenth of the share).
- **UncountedProcess**: an Event on a pod whose processes on a card are more than the places in its
  ledger that processes hold, at three of the last ten looks.
- **UnexplainedUse**: an Event on the node with a card of which more than 512 MiB are in use, at
  three of the last ten looks, that the driver shows for no process, or for the PID of a process
  of another container than now.
- **ShareExceeded**: an Event on a pod with a container that had 3 s of GPU time beyond its share
  and 3 points, as the driver counts. Where `collect_gpu_time` says that this count is good, the
  container's launches wait until that is paid, and it has the card in slices from then on.
- What the agent does besides is its setting `on_violation`: a container that it finds past its
  limits has no burst by default, or fails with its pod (`kill`);
  [the agent's reference](reference/agent.md) has a table. Nothing holds the launches of a process
  that asks no page of the agent's: freezing its cgroup was tried, and doesn't
  ([decision 16](decisions/0016-acting-on-violations.md)), so only `kill` ends it.
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
        "Kernels that are short where they are sampled and long elsewhere",
        "the estimate follows the samples, where a program can tell which launches are sampled: in"
        " a trial on the simulated card a share of 20 % had 50 % for a minute beside one of 80 %."
        " The event ShareExceeded names it, and with `collect_gpu_time` its launches wait",
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
        " (LedgerDamaged)",
    ),
)
"""Reviewers tried these on the simulated card; no test here shows them yet."""

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
        "Work of the driver itself: the kernels of cuMemset, page migration of managed memory",
        "not charged: it has no launch, and takes little",
    ),
    (
        "MPS: one server's process for all",
        "the driver sees the server, not its clients. No container is given the server's sockets,"
        " and the hook limits each client as any other process",
    ),
    (
        "Memory of Vulkan, OpenGL, OptiX, or the video engines",
        "not gated; the driver volume brings what CUDA needs. Where NVML counts such memory for the"
        " process, it is unaccounted",
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
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + FOOT


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
