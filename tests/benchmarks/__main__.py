"""Measure and write ``docs/benchmarks.md``: ``python -m tests.benchmarks``."""

import pathlib
import platform
import sys

from tests.benchmarks import gpu, hook, model, planning
from tests.benchmarks.scheduling import hostile
from tests.benchmarks.scheduling import section as scheduling

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench`; the figures are of the machine that ran it last: {machine}.
Medians with the 99th percentile behind them. Cards are simulated, or none takes part, wherever the
heading names no real card.
"""


def main() -> int:
    """Run every measurement and write the page."""
    machine = (
        f"{platform.machine()}, Python {platform.python_version()}, Linux {platform.release()}"
    )
    parts = [
        HEAD.format(machine=machine),
        model.section(),
        planning.section(),
        scheduling.section(),
        hostile.section(),
        hook.section(),
        *gpu.blocks(PAGE.read_text()),
    ]
    PAGE.write_text("\n".join(parts))
    print("\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
