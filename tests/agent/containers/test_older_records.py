"""The records are older than what runs: a disk that lost writes, or a copy that was put back."""

from tests.agent.host import CORE, Host, container, decision, make_pod


def test_a_container_that_the_records_lack_starts_again(host: Host) -> None:
    host.start_agent()
    written = decision((1,), (1,), cores=50, memory=32)
    asked = container("c0", 50, 32), container("c1", 50, 32)
    pod = host.create(make_pod("p", *asked, annotations=written))
    host.kubelet.allocate(pod, asked[0])
    older = (host.state / "checkpoint.json").read_bytes()
    host.kubelet.allocate(pod, asked[1])
    running = {}
    for name in ("c0", "c1"):
        answer = host.kubelet.start_container(pod, name, CORE)
        annotations = dict(answer.annotations)
        running[name] = host.cri.run(pod["metadata"]["uid"], name, annotations=annotations)
    host.stop_agent()
    (host.state / "checkpoint.json").write_bytes(older)
    host.start_agent()
    host.cri.exit(running["c1"])
    host.kubelet.start_container(pod, "c1", CORE)
    assert not host.is_failed(pod)
    (record,) = host.agent.records.all()
    assert all(each.core_ids and each.memory_ids for each in record.containers)
