"""The original's display on the agent's socket, its client, and the command that uses it."""

import json
import pathlib
import threading
import urllib.request
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format

from gpustack import __version__
from gpustack.adapters.display import display_pb2 as pb
from gpustack.cli.main import main
from tests.agent.host import Host

_SECONDS = 10.0


def _socket(host: Host) -> pathlib.Path:
    path = host.root / "run" / "agent.sock"
    host.wait_until(path.exists)
    return path


def _call(host: Host, method: str, kind: Any) -> Any:
    """Call as the original's clients do, by the original's names."""
    options = (("grpc.default_authority", "localhost"),)
    with grpc.insecure_channel(f"unix:{_socket(host)}", options=options) as channel:
        call = channel.unary_unary(
            f"/display.GPUDisplay/{method}",
            request_serializer=empty_pb2.Empty.SerializeToString,
            response_deserializer=kind.FromString,
        )
        return call(empty_pb2.Empty(), timeout=_SECONDS, wait_for_ready=True)


def _page(host: Host, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{host.agent.web.ports[0]}{path}") as answer:
        return json.load(answer)


def test_the_socket_says_what_the_pages_say(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("p", minor=1))
    assert _call(host, "PrintGraph", pb.GraphResponse).graph == _page(host, "/graph")["graph"]
    assert _call(host, "Version", pb.VersionResponse).version == __version__
    usage = _call(host, "PrintUsages", pb.UsageResponse)
    written = json_format.MessageToDict(usage, preserving_proto_field_name=True)
    assert _without_zeros(_page(host, "/usage")) == written


def _without_zeros(value: Any) -> Any:
    """Leave out what protobuf leaves out of its JSON."""
    if isinstance(value, Mapping):
        kept = {name: _without_zeros(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each not in (0, "", [], {})}
    return [_without_zeros(each) for each in value] if isinstance(value, list) else value


def test_usages_have_the_originals_fields(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", minor=1)
    host.kubelet.admit(pod)
    usage = _call(host, "PrintUsages", pb.UsageResponse).usage[pod["metadata"]["uid"]]
    assert usage.project == "default"
    assert (usage.spec["c0"].gpu, usage.spec["c0"].mem) == (0.5, 8192.0)
    [card] = usage.stat["c0"].dev
    assert (card.card_idx, card.id, card.device_mem) == ("1", "0000:0f:00.0", 81920.0)


def test_the_command_prints_the_graph(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("p", minor=1))
    assert main(["graph", "--socket", str(_socket(host))]) == 0
    assert capsys.readouterr().out == _page(host, "/graph")["graph"]


def test_the_command_names_the_socket_of_an_agent_that_is_away(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "agent.sock"
    assert main(["graph", "--socket", str(missing)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert str(missing) in error
    assert "does gpustack-agent run on this host" in error


def test_a_driver_that_hangs_is_asked_once_for_all(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    path = _socket(host)
    let_go, calls = threading.Event(), []

    def hang(_: str) -> tuple[()]:
        calls.append(1)
        let_go.wait(_SECONDS)
        return ()

    monkeypatch.setattr(host.nvml, "processes", hang)
    monkeypatch.setattr(host.nvml, "sm_percent", lambda *_: {})
    answers: list[str] = []
    askers = [
        threading.Thread(
            target=lambda: answers.append(_call(host, "PrintGraph", pb.GraphResponse).graph)
        )
        for _ in range(3)
    ]
    for asker in askers:
        asker.start()
    host.wait_until(lambda: bool(calls))
    assert _call(host, "Version", pb.VersionResponse).version == __version__
    assert path.exists()
    let_go.set()
    for asker in askers:
        asker.join(_SECONDS)
    assert len(answers) == 3
