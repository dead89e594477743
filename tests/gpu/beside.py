"""Tenants side by side on a simulated machine of their own: what each had of the card."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.hook.container import CARD_BYTES, SIMGPU
from tests.testbed import paths

Tenants = Sequence[tuple[str, int, str]]
"""Names, cores (0: without the hook) and programs of `victims.PROGRAMS`."""

_TOOL: Final = SIMGPU / "out" / "bin" / "simgpu"


def started(folder: pathlib.Path, rule: str) -> Mapping[str, str]:
    """Start a machine with one card; returns the environment of its processes."""
    (folder / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (folder / "dev" / name).touch()
    card = {"minor": 0, "memory": CARD_BYTES}
    description = {"cards": [card], "timing": {"counting": rule, "to_device_mb_s": 200}}
    (folder / "cards.json").write_text(json.dumps(description))
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(SIMGPU / "out" / "lib"),
        "SIMGPU_STATE": str(folder / "state"),
        "SIMGPU_DEV": str(folder / "dev"),
        "SIMGPU_CARDS": str(folder / "cards.json"),
    }
    subprocess.run([_TOOL, "init"], check=True, env=environment)
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
