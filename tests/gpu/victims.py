"""Honest tenants on a simulated card, beside the hook, the agent and a neighbour.

Run as a program on a machine of tests/simgpu: `python -m tests.gpu.victims ROOT SECONDS TENANTS`,
where TENANTS is JSON, a list of names, cores (0: without the hook) and programs. It prints, by
name, what each had of the card's own time in so many seconds after a warm-up, percent; that of
copies counts, too.
"""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from gpustack.adapters.nvml import Nvml
from tests.gpu import agent
from tests.gpu.cards import answering
from tests.gpu.host import Client, Host, Walls, tenant
from tests.hook.container import CONTEXT_BYTES, SIMGPU

WARM_SECONDS: Final = 2.0
_BEYOND: Final = "3600"  # seconds: they are ended before
_OUT: Final = SIMGPU / "out"

PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "steady": tenant("run", 2000, 1, _BEYOND),  # always has kernels of 2 ms queued
    "short": [str(_OUT / "tests" / "client"), "0", "spin", "10", _BEYOND],
    "avoider": [str(_OUT / "tests" / "client"), "0", "avoid", "2000", _BEYOND],
    "bursts": [str(_OUT / "tests" / "client"), "0", "bursts", "2000", _BEYOND],
    "copying": [str(_OUT / "tests" / "client"), "0", "rounds", "200", _BEYOND],
}


def ran_ns() -> Mapping[int, int]:
    """Return the GPU time that each process has had, by PID, from the card's time line."""
    shown = subprocess.check_output([_OUT / "bin" / "simgpu", "show"], text=True)
    return {int(pid): int(ns) for pid, ns in re.findall(r" pid (\d+) .* ran (\d+) ns", shown)}


def percents(host: Host, programs: Mapping[str, str], seconds: float) -> Mapping[str, float]:
    """Return what each tenant had of the card."""
    nvml = Nvml()
    nvml.inventory()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(nvml))
        stack.enter_context(agent.sampling(host, nvml))
        pids = {
            name: stack.enter_context(
                Client(host.containers.get(name, host.bare()).start(*PROGRAMS[program]))
            ).pid
            for name, program in programs.items()
        }
        time.sleep(WARM_SECONDS)
        before, began = ran_ns(), time.monotonic()
        time.sleep(seconds)
        after, span_ns = ran_ns(), (time.monotonic() - began) * 1e9
        return {name: 100 * (after[pid] - before[pid]) / span_ns for name, pid in pids.items()}


def main() -> None:
    root, seconds, tenants = sys.argv[1:]
    walls = Walls(why_not="the tests' hook, which looks into its working folder")
    host = Host(answering(), walls, pathlib.Path(root), context_bytes=CONTEXT_BYTES)
    programs: dict[str, str] = {}
    for name, cores, program in json.loads(tenants):
        if cores:
            host.container(name, cores=cores, memory_bytes=1 << 30)
        programs[name] = program
    print(json.dumps(percents(host, programs, float(seconds))))


if __name__ == "__main__":
    main()
