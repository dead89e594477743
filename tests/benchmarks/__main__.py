"""Measure and write ``docs/benchmarks.md``: ``python -m tests.benchmarks``.

``python -m tests.benchmarks planning hook`` measures these parts, prints them and writes nothing.
"""

import argparse
import pathlib
import platform
import sys

from tests.benchmarks import checkpoint, gpu, hook, model, page, planning, rollout
from tests.benchmarks.agent import section as agent
from tests.benchmarks.scheduling import hostile
from tests.benchmarks.scheduling import section as scheduling

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench`; the figures are of the machine that ran it last: {machine}.
Medians with the 99th percentile behind them. Cards are simulated, or none takes part, wherever the
heading names no real card.
"""
SECTIONS = {
    "model": model.section,
    "planning": planning.section,
    "scheduling": scheduling.section,
    "hostile": hostile.section,
    "page": page.section,
    "checkpoint": checkpoint.section,
    "agent": agent.section,
    "rollout": rollout.section,
    "hook": hook.section,
}


def main() -> int:
    """Measure what is named and print it; without a name measure all and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    # argparse compares an empty list with the choices as well
    parser.add_argument("part", nargs="*", choices=[*SECTIONS, []], metavar=" | ".join(SECTIONS))
    named = parser.parse_args().part
    texts = [SECTIONS[name]() for name in named or SECTIONS]
    print("\n".join(texts))
    if not named:
        machine = (
            f"{platform.machine()}, Python {platform.python_version()}, Linux {platform.release()}"
        )
        head = HEAD.format(machine=machine)
        PAGE.write_text("\n".join([head, *texts, *gpu.blocks(PAGE.read_text())]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
