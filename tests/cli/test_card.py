"""``gpustack card``, with an agent behind a real socket."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from gpustack.adapters.control import ControlServer, control_service
from gpustack.agent.control.root_control import RootControl
from gpustack.cli.main import main
from gpustack.wire import schemas
from gpustack.wire.one_line import one_line
from tests.agent.health.cards import card_inventory
from tests.fakes.nvml import card
from tests.waiting import running, wait_until

_UUID = card(0).uuid


class _Agent:
    """A control socket of one card."""

    def __init__(self, root: pathlib.Path) -> None:
        self.socket = root / "agent.sock"
        self.inventory = card_inventory(root)
        service = control_service(RootControl(self.inventory, reload=lambda: ()))
        self.server = ControlServer(self.socket, (service,))


@pytest.fixture
def agent(tmp_path: pathlib.Path) -> Iterator[_Agent]:
    agent = _Agent(tmp_path)
    with running(agent.server.run):
        wait_until(agent.socket.is_socket)
        yield agent


def test_a_card_is_listed_taken_and_released(
    agent: _Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = ("--socket", str(agent.socket))
    assert main(["card", "list", *socket]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["CARD", "UUID", "MODEL", "STATE", "REASON", "SINCE", "TEXT"]
    assert line.split()[:2] == ["0", _UUID]
    assert "  healthy  -  " in line
    assert main(["card", "quarantine", "0", "--reason", "fan\x1b[31m is loud", *socket]) == 0
    shown = capsys.readouterr().out
    assert one_line("by hand: fan\x1b[31m is loud", 100) in shown
    assert not agent.inventory.node.cards[0].healthy
    assert main(["card", "list", "-o", "json", *socket]) == 0
    value = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("card"), value) == []
    (listed,) = value["cards"]
    assert (listed["state"], listed["reason"]) == ("quarantined", "Quarantined")
    assert [each["state"] for each in listed["history"]] == ["quarantined"]
    assert main(["card", "release", _UUID, *socket]) == 0
    assert agent.inventory.node.cards[0].healthy


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("release", "7"), 1, "no card has the UUID or minor '7'; there are 0 (GPU-"),
        (("list", "--socket", "/nowhere/agent.sock"), 2, "are you root (sudo)?"),
    ],
)
def test_an_answer_that_is_no_is_one_line_on_stderr(
    agent: _Agent,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    own = () if "--socket" in arguments else ("--socket", str(agent.socket))
    assert main(["card", *arguments, *own]) == status
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("gpustack: ")
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "0"), "list takes neither a card nor --reason"),
        (("release",), "release needs a card: UUID|MINOR"),
        (("reset", "0"), "invalid choice: 'reset'"),
    ],
)
def test_wrong_use_of_card_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["card", *arguments])
    assert said in capsys.readouterr().err
