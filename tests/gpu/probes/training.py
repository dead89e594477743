"""PyTorch trains a small transformer: training.py SECONDS. Prints one line of JSON.

Knows nothing of the hook. It holds the card nearly all the time, eager and as a CUDA graph, so that
a share of the card's time is a share of its steps.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

torch: Any = importlib.import_module("torch")  # not among our own requirements

WIDTH, LAYERS, HEADS, WORDS = 1024, 6, 16, 512
GIB = 1 << 30


def rate(step: Callable[[], None], seconds: float) -> float:
    """Return steps a second, after a second that doesn't count."""
    begun = count = 0
    started = time.monotonic()
    first = last = started
    while last - started < seconds + 1 or count < 2:
        step()
        torch.cuda.synchronize()
        last = time.monotonic()
        count += 1
        if last - started < 1:
            begun, first = count, last
    return (count - begun) / (last - first)


def trained(batch: int) -> Callable[[], None]:
    """Return a training step."""
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, device="cuda"
    )
    model = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).cuda()
    # `capturable`: its state lies on the card, as a graph needs it
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    words = torch.randn(batch, WORDS, WIDTH, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(words).square().mean().backward()
        optimizer.step()

    return step


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """Return the step as a graph; warmed up on a side stream, as PyTorch's notes ask."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay() -> None:
        graph.replay()

    return replay


def refused(size: int) -> bool:
    """Say whether so much memory is refused in PyTorch's own way."""
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return True
    return False


def main() -> None:
    seconds = float(sys.argv[1])
    free, total = torch.cuda.mem_get_info()
    torch.backends.cuda.matmul.allow_tf32 = True
    step = trained(16 if total >= 12 * GIB else 2)
    found = {
        "torch": torch.__version__,
        "total_bytes": total,
        "refused": refused(free + GIB),
        "eager": rate(step, seconds),
        "graph": rate(captured(step), seconds),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
