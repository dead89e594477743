"""The agent describes its host: to the API server, the kubelet, systemd and over HTTP."""

import json
import os
import pathlib
import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

import gpustack
from gpustack.adapters.nvml import CardFault, GpuProcess
from gpustack.adapters.systemd import DescriptorStore, Notifier
from gpustack.agent.app import Agent
from gpustack.agent.instance import InstanceError
from gpustack.agent.main import main
from gpustack.wire.nodes import MODEL_LABEL, decode_node, decode_software
from tests.agent.host import CORE, KEYS, MEMORY, NODE, Host, container, decision, make_pod
from tests.fakes.nvml import card


def _get(host: Host, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{host.agent.web.ports[0]}{path}") as response:
        return str(response.read().decode())


def test_the_node_object_carries_cards_links_and_model(host: Host) -> None:
    host.start_agent()
    host.wait_until(host.agent.publisher.published.is_set)
    node = host.api.get("nodes", NODE)
    assert node["metadata"]["labels"][MODEL_LABEL] == "NVIDIA-A100-SXM4-80GB"
    found = decode_node(KEYS, node)
    assert [each.uuid for each in found.cards] == [card(0).uuid, card(1).uuid]
    assert found.links == (("X", "NV12"), ("NV12", "X"))
    assert (found.driver, found.cuda) == ("535.261.03", "12.2")


def test_a_lost_card_is_unhealthy_everywhere_until_it_answers_again(host: Host) -> None:
    host.start_agent()
    host.nvml.set_faults(CardFault(uuid=card(1).uuid, reason="Lost"))

    def states() -> list[tuple[bool, str]]:
        found = decode_node(KEYS, host.api.get("nodes", NODE))
        return [(each.healthy, each.reason) for each in found.cards]

    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 100)
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[MEMORY].healthy()) == 320)
    host.wait_until(lambda: states() == [(True, ""), (False, "Lost")])
    host.nvml.set_faults()
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 200)


def test_a_card_that_a_critical_xid_blames_takes_no_more_work(host: Host) -> None:
    host.start_agent()
    host.nvml.send_xid(CardFault(uuid=card(0).uuid, reason="Xid79"))
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 100)
    assert host.agent.inventory.node.cards[0].reason == "Xid79"


def _becomes(host: Host, reason: str, *faults: CardFault) -> None:
    """Let the driver find these faults, and wait until the first card has this reason."""
    host.nvml.set_faults(*faults)
    host.wait_until(lambda: host.agent.inventory.node.cards[0].reason == reason)


def test_a_card_that_was_blamed_and_lost_is_healthy_when_it_is_back(host: Host) -> None:
    host.start_agent()
    host.nvml.send_xid(CardFault(uuid=card(0).uuid, reason="Xid79"))
    _becomes(host, "Xid79")
    for reason in ("Lost", "NoAnswer"):  # as while its driver starts again
        _becomes(host, reason, CardFault(uuid=card(0).uuid, reason=reason))
    _becomes(host, "")
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 200)


def test_a_blamed_card_that_was_only_slow_to_answer_takes_no_more_work(host: Host) -> None:
    host.start_agent()
    host.nvml.send_xid(CardFault(uuid=card(0).uuid, reason="Xid48"))
    _becomes(host, "Xid48")
    _becomes(host, "NoAnswer", CardFault(uuid=card(0).uuid, reason="NoAnswer"))
    _becomes(host, "Xid48")
    assert len(host.kubelet.plugins[CORE].healthy()) == 100


def test_metrics_show_requests_and_use_of_a_container(host: Host) -> None:
    host.start_agent()
    pod = host.create(
        make_pod("p", container("c0", 50, 32), annotations=decision((1,), cores=50, memory=32))
    )
    host.kubelet.admit(pod)
    host.cri.run(pod["metadata"]["uid"], "c0")
    host.nvml.running[card(1).uuid] = (GpuProcess(pid=os.getpid(), memory_bytes=3 * 1024**3),)
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(_get(host, "/metrics"))
        for sample in family.samples
    }
    labels = {
        "pod_name": "p",
        "namespace": "default",
        "node": NODE,
        "container_name": "c0",
    }

    def value(name: str, **more: str) -> float:
        return samples[(name, *sorted({**labels, **more}.items()))]

    assert value("container_request_gpu_utilization", req_of_gpu="total") == 0.5
    assert value("container_request_gpu_memory", req_of_gpu_memory="total") == 8192
    # The test's own process runs in no container: its use belongs to no pod.
    assert value("container_gpu_memory_total", gpu_memory="gpu1") == 0
    assert samples[("gpustack_registered",)] == 1
    assert samples[
        ("gpustack_card_allocated_cores_ratio", ("minor", "1"), ("uuid", card(1).uuid))
    ] == pytest.approx(0.5)
    assert _get(host, "/metric").startswith("# HELP")


def test_usage_graph_version_and_probes_answer(host: Host) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 200)))
    host.kubelet.admit(pod)
    host.wait_until(lambda: host.agent.registrar.ready)
    usage = json.loads(_get(host, "/usage"))["usage"][pod["metadata"]["uid"]]
    assert usage["spec"]["c0"] == {"gpu": 2.0, "mem": 0.0}
    assert [each["card_idx"] for each in usage["stat"]["c0"]["dev"]] == ["0", "1"]
    graph = json.loads(_get(host, "/graph"))["graph"].splitlines()
    assert graph[0] == "ROOT:0"  # the pod holds both cards
    assert graph[1].startswith("|---CPU (aval: 0, pids: [], usedMemory: 0, totalMemory: 171798")
    assert [line.partition("GPU")[2][:1] for line in graph[2:]] == ["0", "1"]
    assert "allocatableCores: 0, allocatableMemory: 0)" in graph[2]
    assert set(json.loads(_get(host, "/version"))) == {"version"}
    assert _get(host, "/healthz") == _get(host, "/readyz") == "ok\n"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        _get(host, "/nothing")


def test_an_unregistered_agent_is_well_and_not_ready(host: Host) -> None:
    host.kubelet.stop()
    host.start_agent(registered=False)
    assert _get(host, "/healthz") == "ok\n"
    with pytest.raises(urllib.error.HTTPError, match="503"):
        _get(host, "/readyz")


def test_systemd_gets_ready_only_when_both_plugins_are_watched(
    host: Host, tmp_path: pathlib.Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        host.start_agent()
        join = host.serve(Notifier(str(tmp_path / "notify")))
        said = [listener.recv(4096).decode()]
        while not said[-1].startswith("READY=1"):
            said.append(listener.recv(4096).decode())
        assert host.agent.registrar.ready
        host.agent.tasks.stop.set()
        while said[-1] != "STOPPING=1":
            said.append(listener.recv(4096).decode())
        assert join() == 0
    assert "WATCHDOG=1" in said


def test_a_failed_thread_stops_the_agent_with_an_error(host: Host) -> None:
    host.start_agent()

    def fail(_: object) -> None:
        raise RuntimeError("a defect")

    join = host.serve(Notifier(""))
    host.agent.tasks.start("defect", fail)
    assert join() == 1
    assert host.agent.condition.unwell() == ["a thread has failed"]


def test_a_second_agent_on_the_same_host_does_not_start(host: Host) -> None:
    host.start_agent()
    with pytest.raises(InstanceError, match="another agent"):
        Agent(host.settings(), nvml=host.nvml, store=DescriptorStore())


def test_a_configuration_that_is_named_twice_is_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--config", str(tmp_path), "--config", str(tmp_path), "--check-config"])
    assert "argument --config: given twice; give it once" in capsys.readouterr().err


def test_the_program_checks_its_configuration_and_tells_its_version(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.yml"
    file.write_text("hook: {version: 0.1.0-01234567}\n")
    assert main(["--config", str(file), "--check-config"]) == 0
    file.write_text("http: {port: 99999}\nnode: x\n")
    assert main(["--config", str(file), "--check-config"]) == 2
    said = capsys.readouterr().err
    assert "http.port" in said
    assert "node" in said
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.startswith("gpustack-agent 0.")


def test_the_node_says_which_agent_and_hook_run_there(host: Host) -> None:
    host.start_agent()
    host.wait_until(lambda: decode_software(KEYS, host.api.get("nodes", NODE)).agent != "")
    said = decode_software(KEYS, host.api.get("nodes", NODE))
    assert said.agent == gpustack.__version__
    assert said.hook == host.settings().hook_version
