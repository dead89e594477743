"""By which rule the card's driver counts GPU time of processes: measured, and told to the agent."""

import contextlib
import time
from collections.abc import Sequence

import pytest

from tests.gpu import work
from tests.gpu.cards import Outside
from tests.gpu.host import Client, tenant
from tests.gpu.nvml.counting import POINTS, Told, rule_of, windows
from tests.gpu.work import Kernel, Watch, text_of

pytestmark = pytest.mark.gpu

TITLE = "GPU time of processes, by NVML and by work that is done, percent of the card's"
COLLECT = "gpustack_agent_collect_gpu_time"
LEAST_SECONDS = 5.0  # thirty samples of 1/6 s
STEADY_US = 2_000
BEAT_US, REST_US = 20_000, 40_000  # together no part of 1/6 s, of 1/4 s or of 1 s


def told(outside: Outside, watch: Watch, kernel: Kernel, commands: Sequence[Sequence[str]]) -> Told:
    """Let tenants work, and return what the driver tells of them beside what they did."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(watch.bare.start(*each))) for each in commands]
        time.sleep(work.WARM_SECONDS)
        until = time.monotonic() + seconds_of(watch)
        found = windows(outside.nvml, outside.uuid, until)
        printed = [each.process.communicate(timeout=120)[0] for each in clients]
        runs = [work.read(each).warm for each in printed]
        had = {one.pid: kernel.share(run) for one, run in zip(clients, runs, strict=True)}
    return Told(windows=found, had_percent=had)


def seconds_of(watch: Watch) -> float:
    return max(watch.seconds, LEAST_SECONDS)


def test_the_agent_is_told_whether_the_drivers_count_is_good(
    outside: Outside, watch: Watch
) -> None:
    steady, beat = watch.kernels[STEADY_US], watch.kernels[BEAT_US]
    span = work.WARM_SECONDS + seconds_of(watch) + 1
    always = tenant("run", STEADY_US, steady.loops, span)
    pausing = tenant("beat", BEAT_US, beat.loops, span, REST_US)
    trials = {
        f"two at a time, {text_of(STEADY_US)} each": told(outside, watch, steady, [always] * 2),
        f"one, {text_of(BEAT_US)} and {text_of(REST_US)} of rest": told(
            outside, watch, beat, [pausing]
        ),
    }
    for name, each in trials.items():
        watch.report.put(
            TITLE,
            name,
            had=" : ".join(f"{percent:.1f}" for percent in each.had_percent.values()),
            **columns(each),
        )
    rule = rule_of(*trials.values())
    watch.report.note(
        TITLE, f"Rule: {rule.value} (`tests/simgpu/README.md`). Good within {POINTS:g} points."
    )
    watch.report.tell_agent(COLLECT, rule.is_good)


def columns(trial: Told) -> dict[str, str]:
    """Return what the driver told in a trial; nothing where it counts no process."""
    if not trial.windows:
        return {"told": "-"}
    return {
        "told": " : ".join(f"{percent:.1f}" for percent in trial.told_percent.values()),
        "windows_that_name_all": f"{100 * trial.named_part:.0f} %",
        "their_length": f"{1000 * trial.window_seconds:.0f} ms",
        "told_after": f"{1000 * trial.behind_seconds:.0f} ms",
    }
