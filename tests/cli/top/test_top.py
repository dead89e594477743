"""``gpustack top``: usage against guarantee, by agents on real sockets."""

import json
import socket
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.wire import schemas
from tests.agent.conftest import host
from tests.agent.host import NODE, Host
from tests.cli.top.agents import GIB, agent, metrics

__all__ = ["host"]  # a fixture

_USED = {
    "research/a/main": (20.0, 0.5, 2048.0, 8192.0),
    "research/a/side": (10.0, 0.0, 0.0, 0.0),
    "prod/b/main": (150.0, 2.0, 40960.0, 163840.0),
}


def ask(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    """Return the JSON, which has the form of its schema."""
    assert main(["top", *words, "-o", "json"]) == status
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("top"), value) == []
    return value


def test_a_pods_use_stands_beside_its_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(metrics("gpu1", _USED)) as url:
        value = ask(capsys, "--agent", url)
    assert value == {
        "pods": [
            {
                "namespace": "prod", "pod": "b", "node": "gpu1",
                "used_cores": 150.0, "guaranteed_cores": 200.0,
                "used_memory_bytes": 40 * GIB, "guaranteed_memory_bytes": 160 * GIB,
            },
            {
                "namespace": "research", "pod": "a", "node": "gpu1",
                "used_cores": 30.0, "guaranteed_cores": 50.0,
                "used_memory_bytes": 2 * GIB, "guaranteed_memory_bytes": 8 * GIB,
            },
        ],
        "unread": [],
    }  # fmt: skip


def test_several_agents_are_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(metrics("gpu1", _USED)) as one, agent(metrics("gpu2", _USED)) as other:
        words = ("--agent", one, "--agent", other, "--agent", one)
        namespaces = ask(capsys, "namespaces", *words)["namespaces"]
        nodes = ask(capsys, "nodes", *words)["nodes"]
        cards = ask(capsys, "cards", *words)["cards"]
        own = ask(capsys, "pods", "-n", "prod", *words)["pods"]
    # Pods of one name in one namespace are one pod: names are the API server's.
    assert [(each["namespace"], each["pods"], each["used_cores"]) for each in namespaces] == [
        ("prod", 1, 300.0),
        ("research", 1, 60.0),
    ]
    assert [(each["node"], each["containers"], each["unhealthy_cards"]) for each in nodes] == [
        ("gpu1", 3, 1),
        ("gpu2", 3, 1),
    ]
    # The second card says nothing of its use.
    assert {each["busy_cores"] for each in nodes} == {25.0}
    assert {(each["minor"], each["busy_cores"], each["healthy"]) for each in cards} == {
        ("0", 25.0, True),
        ("1", None, False),
    }
    assert {each["namespace"] for each in own} == {"prod"}


def test_a_real_agent_is_asked(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("p", 1))
    url = f"http://127.0.0.1:{host.agent.web.ports[0]}"
    (pod,) = ask(capsys, "--agent", url)["pods"]
    assert (pod["pod"], pod["node"], pod["guaranteed_cores"]) == ("p", NODE, 50.0)
    assert pod["guaranteed_memory_bytes"] == 8 * GIB
    (node,) = ask(capsys, "nodes", "--agent", url)["nodes"]
    assert (node["node"], node["guaranteed_cores"]) == (NODE, 50.0)


def test_an_agent_that_does_not_answer_keeps_no_other_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with agent(metrics("gpu1", _USED)) as url:
        value = ask(capsys, "--agent", gone, "--agent", url, status=1)
        assert main(["top", "--agent", gone, "--agent", url]) == 1
    assert len(value["pods"]) == 2
    (problem,) = value["unread"]
    assert problem.startswith(gone)
    said = capsys.readouterr()
    assert said.err == f"gpustack: {problem}\n"
    assert said.out.splitlines()[1].split() == [
        "prod/b", "gpu1", "1.50", "2.00", "75", "40.0", "160.0", "25",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>",
        b"\xff\xfe",
        "gpustack_build_info{",
        metrics("gpu1") + "gpustack_card_healthy NaN\n",
        metrics("gpu1") + "gpustack_card_busy_ratio -1\n",
        metrics("gpu1") + "gpustack_card_memory_bytes 1e999\n",
        metrics("gpu1") + 'gpustack_card_healthy{uuid="a",minor="0"} 1\n' * 300,
        "x" * (17 << 20),
    ],
    ids=[
        "empty", "html", "no-text", "cut", "nan", "negative", "infinite", "many-cards", "endless",
    ],
)  # fmt: skip
def test_an_answer_without_sense_is_told(
    text: str | bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with agent(text) as url:
        value = ask(capsys, "nodes", "--agent", url, status=1)
    assert value["nodes"] == []
    (problem,) = value["unread"]
    assert url.removeprefix("http://") in problem
    assert len(problem) < 500


def test_two_agents_of_one_name_are_no_two_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(metrics("gpu1", _USED)) as one, agent(metrics("gpu1", _USED)) as other:
        value = ask(capsys, "--agent", one, "--agent", other, status=1)
    assert len(value["pods"]) == 2
    assert value["unread"] == [f"{other}: another agent has said already that it is node gpu1"]


def test_names_bring_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(metrics("gpu\x1b[31m", {"n/\x1b]0;x\x07/c": (1, 1, 1, 1)})) as url:
        assert main(["top", "--agent", url]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_pod_named_total_is_a_pod_as_any(capsys: pytest.CaptureFixture[str]) -> None:
    with agent(metrics("gpu1", {"n/total/total": (20.0, 0.5, 2048.0, 8192.0)})) as url:
        (pod,) = ask(capsys, "--agent", url)["pods"]
    assert (pod["used_cores"], pod["used_memory_bytes"]) == (20.0, 2 * GIB)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--agent", "https://a:1"), "is not http://HOST:PORT"),
        (("--agent", "a:5678"), "is not http://HOST:PORT"),
        (("--agent", "http://[::1"), "is not http://HOST:PORT"),
        (("--interval", "0"), "'0' is not 0.5 to 3600 seconds"),
        (("--interval", "nan"), "'nan' is not 0.5 to 3600 seconds"),
        (("--count", "0"), "'0' is not a whole number from 1 to 999999"),
        (("nodes", "-n", "a"), "-n/--namespace: not allowed with nodes or cards"),
        (("-o", "json", "--count", "2"), "--count: not allowed with -o json"),
    ],
)
def test_wrong_use_of_top_is_told(
    words: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["top", *words])
    assert caught.value.code == 2
    assert named in capsys.readouterr().err
