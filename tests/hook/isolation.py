"""Writes docs/isolation.md from what the tests say: python -m tests.hook.isolation."""

import importlib
import pathlib
import sys
from typing import Final

from tests.hook.container import ROOT
from tests.hook.ways_out import FOUND, Escape, Outcome

PAGE: Final = ROOT / "docs" / "isolation.md"

HEAD: Final = """\
<!-- Made by `python -m tests.hook.isolation` from the tests that it names: change those. -->
# What a share holds against

The hook lives in the tenant's own processes. It holds the limits of programs that don't know of
it, whatever they are written in and however they find the driver; a program that is written to
get round it can, as with every limit in user space. What gets round it shows from the host, where
no tenant reaches:

- **UnhookedProcess**: an Event on the pod. The agent looks at the memory maps of every process
  that the driver sees on a shared card; one that doesn't map our `libvcuda.so` (the
  file, not its name) is named.
- **ForeignLimits**: an Event on the pod. The same look finds a process that maps the hook and not
  the limits and the ledger of its container: it goes by files of its own, or round the hook.
- **LedgerDamaged**: an Event on the pod whose container wrote over its own accounting.
- **unaccounted**: memory that the driver sees of a container and its ledger doesn't explain. It
  counts against the share, so that the container's next honest request is refused, and it is a
  metric.

*Closed*: the limit holds. *Reported*: it is passed, and the host sees it. *Out of scope*:
neither, or not by us; the reason is given. Whoever must not trust a tenant at all gives it whole
cards, or MIG instances as whole cards.

| way out | outcome | how | shown by |
|---|---|---|---|
"""

# What no test here can try: it needs a card, a privilege that voids every limit, another runtime.
DECLARED: Final = (
    (
        "Launches by the device: dynamic parallelism, device graphs, a kernel that never ends",
        "the host's side sees no call; the time of the kernel that launches them is measured as its"
        " own, and a card runs nothing else while a kernel that fills it does",
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
        " are for the runtimes that the README names",
    ),
    (
        "ptrace, LD_AUDIT, or any code that changes the process it runs in",
        "as strong as walking the symbol table by hand, and counted in the same way",
    ),
    (
        "Privileged containers, hostPath volumes, SYS_ADMIN or SYS_PTRACE",
        "they own the host, and unmount or replace what they like: Pod Security forbids them",
    ),
)

MODULES: Final = (
    "test_escapes_loader",
    "test_processes",
    "test_escapes_process",
    "test_escapes_files",
)


def escapes() -> list[Escape]:
    """Return what the tests say, in the order in which they stand."""
    for name in MODULES:
        importlib.import_module(f"tests.hook.{name}")
    tried = sorted(FOUND, key=lambda each: MODULES.index(each.test.partition(".")[0]))
    return sorted(tried, key=lambda each: list(Outcome).index(each.outcome))


def page() -> str:
    """Return the page's text."""
    rows = [(each.way, each.outcome.value, each.why, f"`{each.test}`") for each in escapes()]
    rows += [(way, Outcome.OUT_OF_SCOPE.value, why, "") for way, why in DECLARED]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + FOOT


FOOT: Final = "\nThe tests lie in `tests/hook/`; `pytest tests/hook -k escapes` runs them.\n"


def main(target: pathlib.Path = PAGE) -> None:
    """Write the page."""
    target.write_text(page())
    print(f"{target}: {len(escapes())} ways out tried, {len(DECLARED)} declared", file=sys.stderr)


if __name__ == "__main__":
    main()
