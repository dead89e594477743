"""A trace in the columns of the FGD paper's published one, drawn from a seed.

Synthetic: the proportions are ours. They follow what "Beware of Fragmentation" (USENIX ATC 2023)
says of production: somewhat fewer than half of the GPU pods share a card, most others take one, and
a few take up to eight.
"""

import random

HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time"
)
SHARES = (100, 200, 250, 300, 460, 500, 600, 700, 810)  # thousandths of a card
KINDS = ("share", "one", "several")
WEIGHTS = (44, 54, 2)
SEVERAL = (2, 4, 8)


def generate(*, pods: int, cards: int, load: float, seed: int, mean_seconds: float) -> str:
    """Return the CSV of a trace.

    Args:
        pods: how many.
        cards: how many cards it is meant for.
        load: part of them that is asked for on average; above 1 pods must wait.
        seed: one seed, one trace.
        mean_seconds: mean duration of a pod; durations are exponential.
    """
    draw = random.Random(seed)  # noqa: S311  # a simulation, no secret
    asked = [_ask(draw) for _ in range(pods)]
    mean_cards = sum(count * milli / 1000 for count, milli in asked) / pods
    every = mean_cards * mean_seconds / (load * cards)  # seconds between two arrivals
    rows, at = [HEAD], 0.0
    for number, (count, milli) in enumerate(asked):
        at += draw.expovariate(1 / every)
        until = at + max(1.0, draw.expovariate(1 / mean_seconds))
        rows.append(f"pod-{number},1000,1024,{count},{milli},,LS,Running,{at:.3f},{until:.3f},")
    return "\n".join(rows) + "\n"


def _ask(draw: random.Random) -> tuple[int, int]:
    [kind] = draw.choices(KINDS, WEIGHTS)
    if kind == "share":
        return 1, draw.choice(SHARES)
    return (1, 1000) if kind == "one" else (draw.choice(SEVERAL), 1000)
