"""An API server of a fleet with some hostile nodes and pods, as a process of its own.

``python -m tests.benchmarks.scheduling.hostile_cluster FOLDER NODES HOSTILE`` fills it, writes
FOLDER/kubeconfig and says `ready`. After a line on its standard input, the hostile nodes and pods
change their objects all the time; the process ends at the input's end.
"""

import itertools
import pathlib
import sys
import threading
from collections.abc import Iterator

from tests.control_plane import fleet
from tests.extender import hostile
from tests.fakes.kube_api import FakeKubeApi

PODS_EACH = 8
LOADED_CARDS = 6  # of eight: the others stay free for whole cards
ASKED = {"share": (30, 64), "small": (10, 16), "card": (100, 0), "cards": (200, 0)}
BOUND = 600
NODE_CHANGES = 10  # a second, of all hostile nodes together
POD_CHANGES = 10


def is_hostile(number: int, part: float) -> bool:
    """Say whether this one of many is hostile; the hostile ones are spread evenly."""
    return part > 0 and number % round(1 / part) == 0


def node_name(number: int, part: float) -> str:
    """Return a node's name, which says whether the node is hostile."""
    return f"bad-{number:05d}" if is_hostile(number, part) else fleet.name_of(number)


def fill(api: FakeKubeApi, nodes: int, parts: tuple[float, float]) -> list[str]:
    """Create nodes and pods; returns the names of hostile pods, bound and waiting."""
    bad_nodes, bad_pods = parts
    bad: list[str] = []
    for number in range(nodes):
        name = node_name(number, bad_nodes)
        made = fleet.node(number) if name == fleet.name_of(number) else hostile.node(name, number)
        api.create("nodes", made)
        for at in range(PODS_EACH):
            pod = fleet.bound_pod(number, at % LOADED_CARDS)
            pod["metadata"]["name"] = f"held-{number:05d}-{at}"
            which = number * PODS_EACH + at
            if is_hostile(which, bad_pods):
                bad.append(pod["metadata"]["name"])
                pod["metadata"]["annotations"] |= hostile.pod_annotations(which, which)
            api.create("pods", pod)
    if bad:
        for at in range(len(bad) // 4):
            bad.append(f"bad-{at:04d}")
            api.create("pods", hostile.waiting_pod(bad[-1], at, at))
    for name, (cores, units) in ASKED.items():
        api.create("pods", fleet.waiting_pod(f"asked-{name}", cores, units))
    for at in range(BOUND):
        api.create("pods", fleet.waiting_pod(f"bound-{at:04d}", 10, 16))
    return bad


def _changes(api: FakeKubeApi, nodes: list[str], pods: list[str], stop: threading.Event) -> None:
    numbers: Iterator[int] = itertools.count(1_000_000)
    turns = zip(itertools.cycle(nodes), itertools.cycle(pods), strict=False)
    for at, (node, pod) in enumerate(turns):
        number = next(numbers)
        api.edit("nodes", node, hostile.node_patch(at + at // len(nodes), number))
        patch = {"metadata": {"annotations": hostile.pod_annotations(number, number)}}
        api.edit("pods", pod, patch)
        if stop.wait(1 / NODE_CHANGES):
            return


def main() -> int:
    """Serve until standard input ends."""
    folder, nodes = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    parts = (0.01, 0.05) if sys.argv[3] == "hostile" else (0.0, 0.0)
    with FakeKubeApi() as api:
        bad = fill(api, nodes, parts)
        api.write_kubeconfig(folder / "kubeconfig")
        print("ready", flush=True)
        stop = threading.Event()
        sys.stdin.readline()
        names = [node_name(at, parts[0]) for at in range(nodes) if is_hostile(at, parts[0])]
        thread = threading.Thread(target=_changes, args=(api, names, bad, stop))
        if bad:
            thread.start()
        sys.stdin.read()
        stop.set()
        if bad:
            thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
