"""Our NVML adapter in a process of its own, asked line by line over standard input.

The library is loaded once a process and keeps the state that it found then, so every test has a
process; LD_LIBRARY_PATH and SIMGPU_* choose the library and its cards.
"""

import dataclasses
import json
import pathlib
import sys
import threading
import time
from typing import Any

from gpustack.adapters.nvml import Nvml


def main() -> None:
    nvml = Nvml(sysfs=pathlib.Path(sys.argv[1]))
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        answer: Any
        match command:
            case "inventory":
                answer = dataclasses.asdict(nvml.inventory())
            case "faults":
                answer = [dataclasses.asdict(fault) for fault in nvml.faults()]
            case "event":
                fault = nvml.next_fault(int(argument))
                answer = None if fault is None else dataclasses.asdict(fault)
            case "state":
                answer = {"opened": nvml.opened, "problem": nvml.problem}
            case "hung":
                answer = _hung(nvml)
            case _:
                answer = [dataclasses.asdict(each) for each in nvml.processes(argument)]
        print(json.dumps(answer), flush=True)
    nvml.close()


def _hung(nvml: Nvml) -> bool:
    """Say whether a question that was sent to a thread has not returned for a while."""
    threading.Thread(target=nvml.faults, daemon=True).start()
    deadline = time.monotonic() + 10
    while nvml.hung_seconds < 0.3 and time.monotonic() < deadline:
        time.sleep(0.01)
    return nvml.hung_seconds >= 0.3


if __name__ == "__main__":
    main()
