"""Agents that say what a test wants: each a server of its own on a real socket."""

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GIB = 1 << 30


def metrics(
    node: str, containers: dict[str, tuple[float, float, float, float]] | None = None
) -> str:
    """Return an agent's text: two cards, and by NAMESPACE/POD/CONTAINER their use.

    That is the used percent of a card, the guaranteed cards, and the used and allowed MiB.
    """
    lines = [f'gpustack_build_info{{version="0.2.0",python="3.11",node="{node}"}} 1.0']
    for minor, healthy in ((0, 1), (1, 0)):
        card = f'{{minor="{minor}",uuid="GPU-{minor}"}}'
        lines += [
            f"gpustack_card_healthy{card} {healthy}",
            f"gpustack_card_allocated_cores_ratio{card} 0.5",
            f"gpustack_card_memory_bytes{card} {80 * GIB}",
            f"gpustack_card_allocated_memory_bytes{card} {8 * GIB}",
        ]
    lines.append('gpustack_card_busy_ratio{minor="0",uuid="GPU-0"} 0.25')
    lines.append(f'gpustack_card_memory_used_bytes{{minor="0",uuid="GPU-0"}} {4 * GIB}')
    for name, (busy, cards, used, allowed) in (containers or {}).items():
        namespace, pod, container = name.split("/")
        who = f'pod_name="{pod}",namespace="{namespace}",node="{node}",container_name="{container}"'
        lines += [
            f'container_gpu_utilization{{{who},gpu="gpu0"}} 1',
            f'container_gpu_utilization{{{who},gpu="total"}} {busy}',
            f'container_request_gpu_utilization{{{who},req_of_gpu="total"}} {cards}',
            f'container_gpu_memory_total{{{who},gpu_memory="gpu0"}} 1',
            f'container_gpu_memory_total{{{who},gpu_memory="total"}} {used}',
            f'container_request_gpu_memory{{{who},req_of_gpu_memory="total"}} {allowed}',
        ]
    return "\n".join(lines) + "\n"


@contextmanager
def agent(text: str | bytes | Callable[[], str]) -> Iterator[str]:
    """Answer with this text, or with what a function returns each time; yield the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = text() if callable(text) else text
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(said if isinstance(said, bytes) else said.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
