"""A node with CRI-O: the cgroups of its containers, and its monitors beside them."""

import pathlib

from gpustack.agent.identification.process_owners import ProcessOwners
from tests.agent.host import Host
from tests.agent.virtual_manager.original import Original, library, place, place_in


def test_a_crio_container_gets_its_limits_and_its_monitor_none(
    host: Host, original: Original, program: pathlib.Path
) -> None:
    host.cri.name = "cri-o"
    pod = original.pod("p")
    container, uid = original.run(pod), pod["metadata"]["uid"]
    host.start_agent()
    parts = host.agent.virtual_manager
    assert parts is not None
    host.wait_until(lambda: parts.manager.sockets > 0)
    folder = original.folder(pod)
    with library(program, folder, uid=uid, container_id=container) as process:
        for pid in process.pids:
            place_in(host, pid, host.cri.monitor_cgroup(uid, container))
        assert process.initialise() == "rpc client exit with 255"
    with library(program, folder, uid=uid, container_id=container) as process:
        # crun puts processes below the container's own cgroup.
        for pid in process.pids:
            place_in(host, pid, f"{host.cri.cgroup(uid, container)}/container")
        assert process.initialise() == "ok"


def test_processes_of_crio_containers_have_their_owners(host: Host) -> None:
    host.cri.name = "cri-o"
    container = host.cri.run("uid-p", "c0")
    place(host, 41, "uid-p", container)
    place_in(host, 42, host.cri.monitor_cgroup("uid-p", container))
    host.start_agent()
    owner_of = ProcessOwners(host.agent.runtime, proc=host.kernel.proc).now()
    assert (owner_of(41), owner_of(42)) == (("uid-p", "c0"), None)
