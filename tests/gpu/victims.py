"""Honest tenants on a simulated card, beside the hook, the agent and a neighbour.

Run as a program on a machine of tests/simgpu: `python -m tests.gpu.victims ROOT SECONDS TENANTS
RULE`, where SECONDS is JSON, a list of spans, and TENANTS one of names, cores (0: without the hook)
and programs. It prints the reasons of the agent's Events, by name, and, span by span after a
warm-up and by name, what each had of the card's own time, percent; that of copies counts, too, and
"others" is what all other processes had.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from gpustack.adapters.nvml import Nvml
from tests.gpu import agent, bundle
from tests.gpu.cards import answering
from tests.gpu.host import Client, Host, Walls, tenant
from tests.hook.container import CARD_BYTES, CONTEXT_BYTES, SIMGPU
from tests.testbed import paths

WARM_SECONDS: Final = 2.0
_OFTEN_SECONDS: Final = 0.1
_BEYOND: Final = "3600"  # seconds: they are ended before
_OUT: Final = SIMGPU / "out"
_TAKER: Final = str(
    bundle.FOLDER / "taker"
)  # beside the hook: see tests/hook/escapes/test_compute_escapes.py

OWN_DRIVER: Final = bundle.FOLDER / "own-driver"

# Those that give each process what it used.
GOOD_RULES: Final = "exact", "late", "seconds"

_STEADY: Final = tenant("run", 2000, 1, _BEYOND)
_SILENT: Final = "sh", "-c", 'exec "$0" "$@" >/dev/null'  # what it prints would fill the pipe
PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    # Always has kernels of 2 ms queued, or of 1 or 5 ms.
    "steady": [*_SILENT, *_STEADY],
    "steady 1 ms": [*_SILENT, *tenant("run", 1000, 1, _BEYOND)],
    "steady 5 ms": [*_SILENT, *tenant("run", 5000, 1, _BEYOND)],
    # The same without the hook, and with the files of the container "spare".
    "unhooked": ["sh", "-c", 'unset LD_PRELOAD; exec "$0" "$@" >/dev/null', *_STEADY],
    "private": ["sh", "-c", 'cd ../../spare/main; exec "$0" "$@" >/dev/null', *_STEADY],
    "nothing": ["sleep", _BEYOND],
    "short": [str(_OUT / "tests" / "client"), "0", "spin", "10", _BEYOND],
    "avoider": [str(_OUT / "tests" / "client"), "0", "avoid", "2000", _BEYOND],
    "bursts": [str(_OUT / "tests" / "client"), "0", "bursts", "2000", _BEYOND],
    "zeroing": [_TAKER, "zero", "4"],
    "processes": [_TAKER, "each", "2", "700"],
    "contexts": [_TAKER, "contexts", "2", "700"],
    "uneven": [_TAKER, "uneven", "2", "30"],
    "filling": [_TAKER, "fill", "2"],
    # With a libcuda.so.1 of its own, which makes short what the hook measures.
    "measured": [
        *("env", f"DRIVER={OWN_DRIVER}/libreal.so", f"LD_LIBRARY_PATH={OWN_DRIVER}"),
        *(_TAKER, "steady", "4", "2"),
    ],
    "copying": [str(_OUT / "tests" / "client"), "0", "rounds", "200", _BEYOND],
}


Tenants = Sequence[tuple[str, int, str]]
"""Names, cores (0: without the hook) and programs of `PROGRAMS`."""


def started(folder: pathlib.Path, rule: str) -> Mapping[str, str]:
    """Start a machine with one card; returns the environment of its processes."""
    (folder / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (folder / "dev" / name).touch()
    card = {"minor": 0, "memory": CARD_BYTES}
    # Both far below a card's: the processor, which moves the bytes too, keeps up with it.
    timing = {"counting": rule, "to_device_mb_s": 200, "fill_mb_s": 1000}
    description = {"cards": [card], "timing": timing}
    (folder / "cards.json").write_text(json.dumps(description))
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(SIMGPU / "out" / "lib"),
        "SIMGPU_STATE": str(folder / "state"),
        "SIMGPU_DEV": str(folder / "dev"),
        "SIMGPU_CARDS": str(folder / "cards.json"),
    }
    subprocess.run([_OUT / "bin" / "simgpu", "init"], check=True, env=environment)
    return environment


def had(
    folder: pathlib.Path, rule: str, tenants: Tenants, *seconds: float
) -> tuple[list[Mapping[str, float]], list[list[str]]]:
    """Return what tenants had of a card whose driver counts by a rule, percent, span by span.

    The second list is of the agent's Events, each a tenant's name and a reason.

    Args:
        folder: an empty one.
        rule: of `tests/simgpu/README.md`, "What NVML counts".
        tenants: all of them.
        seconds: the lengths of the spans, one after another from a warm-up on.
    """
    environment = started(folder, rule)
    (folder / "host").mkdir()
    command = [sys.executable, "-m", "tests.gpu.victims", str(folder / "host"), json.dumps(seconds)]
    done = subprocess.run(
        [*command, json.dumps(tenants), rule],
        check=False,
        cwd=paths.REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    percents, events = json.loads(done.stdout)
    return percents, events


def ran_ns() -> Mapping[int, int]:
    """Return the GPU time that each process has had, by PID, from the card's time line."""
    shown = subprocess.check_output([_OUT / "bin" / "simgpu", "show"], text=True)
    return {int(pid): int(ns) for pid, ns in re.findall(r" pid (\d+) .* ran (\d+) ns", shown)}


def percents(
    host: Host, programs: Mapping[str, str], spans: Sequence[float], *, collects: bool
) -> tuple[list[Mapping[str, float]], list[tuple[str, str]]]:
    """Return what each tenant had of the card, span by span, and the agent's Events."""
    nvml = Nvml()
    nvml.inventory()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(nvml))
        sampled = stack.enter_context(agent.sampling(host, nvml, collects=collects))
        pids = {
            name: stack.enter_context(
                Client(host.containers.get(name, host.bare()).start(*PROGRAMS[program]))
            ).pid
            for name, program in programs.items()
        }
        time.sleep(WARM_SECONDS)
        found = [_had(pids, seconds) for seconds in spans]
        return found, [(each.name, each.reason) for each in sampled.told]


def _had(pids: Mapping[str, int], seconds: float) -> Mapping[str, float]:
    """Return what tenants have of the card from now on, percent."""
    before, began = ran_ns(), time.monotonic()
    latest = dict(before)
    while (now := time.monotonic()) < began + seconds:
        time.sleep(min(_OFTEN_SECONDS, began + seconds - now))
        latest.update(ran_ns())  # a process that has ended is shown no more
    whole_ns = (time.monotonic() - began) * 1e9
    had = {pid: 100 * (ns - before.get(pid, 0)) / whole_ns for pid, ns in latest.items()}
    of_tenants = {name: had.pop(pid, 0.0) for name, pid in pids.items()}
    return {**of_tenants, "others": sum(had.values())}


def comes_first() -> bool:
    """Let no other process of this machine delay this one and its children, where it may.

    A neighbour that waits for a processor leaves the card idle. On two cores with a load of 15,
    honest tenants of 20 and 80 % had 20 and 53 to 79 %; with this, 20 and 80.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


def main() -> None:
    comes_first()
    root, spans, tenants, rule = sys.argv[1:]
    walls = Walls(why_not="the tests' hook, which looks into its working folder")
    host = Host(answering(), walls, pathlib.Path(root), context_bytes=CONTEXT_BYTES)
    programs: dict[str, str] = {}
    for name, cores, program in json.loads(tenants):
        if cores:
            host.container(name, cores=cores, memory_bytes=1 << 30)
        programs[name] = program
    print(json.dumps(percents(host, programs, json.loads(spans), collects=rule in GOOD_RULES)))


if __name__ == "__main__":
    main()
