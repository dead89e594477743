"""How long ``site.yml`` takes on three new hosts, a control plane among them, and once more."""

import time
from collections.abc import Callable

from tests.cluster import opening
from tests.cluster.rollout import Recap

NAME = "bench"
GPU_HOSTS = 2
GOALS = (300, 60)  # seconds


def section() -> str:
    """Roll out twice on a testbed of this machine, and return the part.

    Raises:
        AssertionError: a run has left hosts out, so that its time is another site's.
    """
    site = opening.open_site(NAME, gpu_hosts=GPU_HOSTS)
    try:
        runs = [_timed(lambda: site.playbook("site")) for _ in GOALS]
    finally:
        opening.close_site(NAME)
    for _, recaps in runs:
        assert len(recaps) == 1 + GPU_HOSTS, sorted(recaps)
    rows = [
        f"| {name} | {seconds:.0f} | {sum(each.changed for each in recaps.values())} | {goal} |"
        for name, (seconds, recaps), goal in zip(("first", "second"), runs, GOALS, strict=True)
    ]
    return "\n".join(
        [
            f"## `site.yml` on three hosts: a control plane and {GPU_HOSTS} with GPUs\n",
            "| run | s | changed | goal, s |",
            "|---|---|---|---|",
            *rows,
            "",
            "Hosts with systemd on this machine, with a cluster of their own and simulated cards.",
            "",
        ]
    )


def _timed(run: Callable[[], dict[str, Recap]]) -> tuple[float, dict[str, Recap]]:
    began = time.perf_counter()
    recaps = run()
    return time.perf_counter() - began, recaps
