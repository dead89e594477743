"""A tenant that reads its files for long delays no other pod's registration.

The kernel keeps a change of their folder waiting while such a read (O_DIRECT, into memory that
comes slowly) is under way.
"""

import pathlib
import threading

from tests.agent import inode_lock
from tests.agent.host import Host, Pod
from tests.agent.virtual_manager.original import Original, library, place


def _register(
    host: Host, original: Original, program: pathlib.Path, pod: Pod, container: str
) -> str:
    uid, folder = pod["metadata"]["uid"], original.folder(pod)
    with library(program, folder, uid=uid, container_id=container) as process:
        for pid in process.pids:
            place(host, pid, uid, container)
        return process.initialise()


def test_a_tenants_long_read_delays_no_other_pods_registration(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    pods = [original.pod("one"), original.pod("two", minor=0)]
    containers = [original.run(pods[0]), original.run(pods[1], minor=0)]
    host.start_agent()
    parts = host.agent.virtual_manager
    assert parts is not None
    host.wait_until(lambda: parts.manager.sockets == 2)
    assert _register(host, original, program, pods[0], containers[0]) == "ok"
    said: list[str] = []

    def register(number: int) -> None:
        said.append(_register(host, original, program, pods[number], containers[number]))

    page = original.folder(pods[0]) / containers[0] / "pids.config"
    own, other = (threading.Thread(target=register, args=(number,)) for number in (0, 1))
    with inode_lock.held(page, alone=False):
        own.start()
        own.join(1)
        other.start()
        other.join(5)
        assert "ok" in said
    own.join()
    other.join()
    assert _register(host, original, program, pods[0], containers[0]) == "ok"
