"""What it costs the extender to ask every agent once how busy its cards are.

One listener, in a process of its own, is all agents: each node has an address of loopback.
"""

import concurrent.futures
import multiprocessing
import pathlib
import tempfile
import threading
import time
from multiprocessing.synchronize import Event

from extender.cache.decode import NodeState
from extender.observability.agent_usage import AgentUsage, Pace
from gpustack.adapters.web.exchange import Response
from gpustack.adapters.web.listener import Listener, Security
from gpustack.adapters.web.readers import Readers
from gpustack.adapters.web.server import WebServer
from gpustack.adapters.web.tls import TlsContexts, TlsFiles
from gpustack.model.cluster.eligibility import Host
from gpustack.model.node import Card, Node
from tests.extender.observability.agents import Site, metrics

CARDS = 8
SHARES = 80  # of a node
SHARE = (
    b'container_gpu_utilization{pod_name="train-1234567890-abcde",namespace="research",'
    b'node="gpu001",container_name="main",gpu="gpu0"} 41.0\n'
) * 14  # a share's 13 samples


def cpu_milliseconds(nodes: int) -> float:
    """Return the CPU time of asking so many nodes once, for each of them."""
    cards = (Card(minor=m, uuid=f"GPU-{m}", model="H100", memory_bytes=1) for m in range(CARDS))
    machine = Node(name="", cards=tuple(cards))
    with tempfile.TemporaryDirectory() as name:
        site = Site(pathlib.Path(name), pace=Pace(every_seconds=0.0, answer_seconds=30.0))
        addresses = [f"127.0.{2 + at // 200}.{1 + at % 200}" for at in range(nodes)]
        for at, address in enumerate(addresses):
            node = Node(name=f"gpu{at}", cards=machine.cards)
            state = NodeState(node=node, version=at, host=Host(address=address))
            site.cache.node_event("ADDED", state)
        site.servers.server("agents", tuple(addresses)).store(site.folder, "agents")
        site.readers.pair.store(site.folder, "readers")
        spawn = multiprocessing.get_context("spawn")
        ready, over = spawn.Event(), spawn.Event()
        text = metrics(machine, *([0.41] * CARDS)) + SHARE * SHARES
        served = spawn.Process(target=_serve, args=(site.folder, site.port, text, ready, over))
        served.start()
        try:
            assert ready.wait(60)
            asking = AgentUsage(site.cache, site.usage, site.source, pace=site.pace)
            with concurrent.futures.ThreadPoolExecutor(site.pace.at_once) as threads:
                began = time.process_time()
                asking.round(threads)
                seconds = time.process_time() - began
        finally:
            over.set()
            served.join()
        assert site.usage.problem == "", site.usage.problem
        return 1000 * seconds / nodes


def _serve(folder: pathlib.Path, port: int, text: bytes, ready: Event, over: Event) -> None:
    files = TlsFiles(
        certificate=folder / "agents.crt",
        key=folder / "agents.key",
        client_ca=folder / "readers.crt",
    )
    security = Security(TlsContexts(files), Readers(None))
    listener = Listener(address="0.0.0.0", port=port, security=security)
    server = WebServer({listener: {"/metrics": lambda _: Response(body=text)}})
    ready.set()
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    over.wait()
    stop.set()
    thread.join()
