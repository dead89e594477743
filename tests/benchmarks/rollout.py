"""How long ``site.yml`` takes on three new GPU hosts and a control plane, and once more."""

import time
from collections.abc import Callable

from tests.cluster import opening
from tests.cluster.rollout import Recap

NAME = "bench"
GPU_HOSTS = 3
GOALS = (300, 60)  # seconds


def section() -> str:
    """Roll out twice on a testbed of this machine, and return the part.

    Raises:
        AssertionError: a run has left hosts out, so that its time is another site's.
    """
    site = opening.open_site(NAME, gpu_hosts=GPU_HOSTS)
    # the demo's inventory, which is the first, names two GPU hosts alone
    every = "-i", str(site.state / "inventory.yml")
    try:
        runs = [_timed(lambda: site.playbook("site", *every)) for _ in GOALS]
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
            f"## `site.yml` on a control-plane host and {GPU_HOSTS} GPU hosts\n",
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
