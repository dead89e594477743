"""A changed configuration is taken over as a whole, or not at all, while the agent runs."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from gpustack.adapters.control import ControlClient, ControlRefusal
from gpustack.adapters.nvml import xid_fault
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent import main
from gpustack.agent.app import Agent
from gpustack.agent.control import reload
from gpustack.agent.settings import AgentSettings, key_of
from gpustack.wire import schemas
from tests.agent.host import NODE, Host
from tests.fakes.nvml import card


def _client(host: Host) -> ControlClient:
    path = host.root / "run" / "agent.sock"
    host.wait_until(path.is_socket)
    return ControlClient(path)


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Put the handlers of the tests' process back."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _reconfigure(host: Host, before: str, after: str) -> None:
    file = host.root / "agent.yml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_rules_of_health_change_while_the_agent_runs(host: Host) -> None:
    host.start_agent()
    client = _client(host)
    assert client.reload() == ()
    _reconfigure(host, "probe_seconds: 0", "probe_seconds: 5, ignored_xids: [48]")
    assert client.reload() == ("health.probe_seconds", "health.ignored_xids")
    host.agent.inventory.blame(xid_fault(card(1).uuid, 48))
    assert host.agent.inventory.node.cards[1].healthy


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("node_name: another", "node_name can't change while the agent runs; restart"),
        ("node_name: [", "is not YAML"),
        ("nodename: x", "nodename is not known here"),
    ],
)
def test_a_configuration_that_can_not_be_taken_over_is_refused(
    host: Host, after: str, said: str
) -> None:
    host.start_agent()
    client = _client(host)
    _reconfigure(host, f"node_name: {NODE}", after)
    _reconfigure(host, "probe_seconds: 0", "probe_seconds: 5")
    with pytest.raises(ControlRefusal, match=said) as caught:
        client.reload()
    assert "the old configuration stays in force" in str(caught.value)
    host.agent.configuration.on_signal()  # a SIGHUP only says so in the log
    assert host.agent.inventory.states.rules.probe_seconds == 0


def test_a_sighup_reloads(host: Host) -> None:
    agent = Agent(
        host.settings(),
        nvml=host.nvml,
        store=DescriptorStore(),
        device_dir=host.root / "dev",
        linker_cache=host.files.linker_cache,
    )

    def send() -> None:
        """Reload the agent, then stop it: the tests' process is its process."""
        host.wait_until(lambda: callable(signal.getsignal(signal.SIGHUP)))
        try:
            _reconfigure(host, "probe_seconds: 0", "probe_seconds: 7")
            os.kill(os.getpid(), signal.SIGHUP)
            host.wait_until(lambda: agent.inventory.states.rules.probe_seconds == 7)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send)
    thread.start()
    assert main._run(agent) == 0
    thread.join()
    assert agent.inventory.states.rules.probe_seconds == 7


def test_the_program_says_what_the_running_agent_has_taken_over(
    host: Host, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.start_agent()
    _client(host)
    file = host.root / "agent.yml"
    arguments = ["--reload", "--config", str(file)]
    assert main.main(arguments) == 0
    assert capsys.readouterr().out == "nothing has changed\n"
    _reconfigure(host, "poll_seconds: 0.1", "poll_seconds: 0.2")
    assert main.main(arguments) == 0
    assert capsys.readouterr().out == "reloaded: health.poll_seconds\n"
    _reconfigure(host, "http: {port: 0}", "http: {port: 1}")
    assert main.main(arguments) == 1
    assert "http.port can't change while the agent runs" in capsys.readouterr().err
    host.stop_agent()
    assert main.main(arguments) == 1
    assert "agent.sock: " in capsys.readouterr().err


def test_every_setting_has_the_name_of_its_key() -> None:
    fields = [each for each in AgentSettings.__dataclass_fields__ if each != "file"]
    assert {key_of(each) for each in reload.LIVE} == set(reload.LIVE.values())
    assert "hook.context_bytes" in {key_of(each) for each in fields}
    properties = schemas.load("agent")["properties"]
    inner = {
        f"{top}.{name}" for top, each in properties.items() for name in each.get("properties", ())
    }
    assert {key_of(each) for each in fields} <= {*properties, *inner}


def test_a_question_loads_none_of_the_agents_parts() -> None:
    # each run of site.yml asks every host's agent, and the parts take most of a program's start
    code = "import gpustack.agent.main, sys; print('gpustack.adapters.kube' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
