"""`/v1` says how busy cards are, as their nodes' agents say; and null where nobody knows."""

import pathlib
from typing import Any

import pytest

from extender import main
from extender.settings import load
from gpustack.adapters.nvml import CardFigures
from gpustack.model.node import Node
from gpustack.wire import schemas
from tests.adapters.web import reading
from tests.agent.host import NODE, Host
from tests.control_plane import fleet
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, node, serving
from tests.extender.observability.agents import BUILD, Site
from tests.fakes import nvml
from tests.fakes.kube_api import FakeKubeApi

TEXT = BUILD + b'gpustack_card_busy_ratio{minor="1",uuid="GPU-gpu1-1"} 0.53\n'


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder)


def utilised(mini: MiniCluster) -> dict[str, list[float | None]]:
    answer = mini.call("GET", "/v1/cluster")
    assert schemas.problems(schemas.load("v1-cluster"), answer.body) == []
    return {
        each["name"]: [card["utilised"] for card in each["cards"]] for each in answer.body["nodes"]
    }


def at(address: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return a node that is reached at an address."""
    told = [{"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": address}]
    return {**value, "status": {**value["status"], "addresses": told}}


def test_the_cluster_shows_what_an_agent_says(
    api: FakeKubeApi, site: Site, tmp_path: pathlib.Path
) -> None:
    site.add("gpu1")
    api.create("nodes", at("127.0.0.2", node("gpu1")))
    api.create("nodes", node("gpu2"))  # says no address
    with site.honest("gpu1", TEXT), serving(api, tmp_path, usage=site.source) as mini:
        eventually(lambda: utilised(mini) == {"gpu1": [None, 0.53], "gpu2": [None, None]})
        mini.service.history.add()
        answer = mini.call("GET", "/v1/history")
        assert schemas.problems(schemas.load("v1-history"), answer.body) == []
        assert [each["utilised"] for each in answer.body["points"]] == [0.53]


def test_without_a_source_nothing_is_known(mini: MiniCluster) -> None:
    assert utilised(mini) == {"cpu1": [], "gpu1": [None, None], "gpu2": [None, None]}
    mini.service.history.add()
    answer = mini.call("GET", "/v1/history")
    assert schemas.problems(schemas.load("v1-history"), answer.body) == []
    assert [each["utilised"] for each in answer.body["points"]] == [None]


def test_a_real_agent_is_read(api: FakeKubeApi, site: Site, tmp_path: pathlib.Path) -> None:
    """The agent's own listener and its own text; NVML is the fake's."""
    root = tmp_path / "host"
    root.mkdir()
    with Host(root) as host:
        agents = reading.Site(root, host.api)
        host.configuration["metrics"] = {
            "listen": "127.0.0.1:0",
            "certificate": str(root / "server.crt"),
            "key": str(root / "server.key"),
            "client_ca": str(site.readers.pair.store(site.folder, "readers").certificate),
            "tokens": False,
        }
        cards = nvml.card(0), nvml.card(1)
        host.nvml.shown[cards[1].uuid] = CardFigures(busy_ratio=0.41)
        host.start_agent()
        site.servers, site.port = agents.authority, host.agent.web.ports[1]
        api.create("nodes", at("127.0.0.1", fleet.gpu_node(Node(name=NODE, cards=cards))))
        with serving(api, tmp_path, usage=site.source) as mini:
            eventually(lambda: utilised(mini) == {NODE: [None, 0.41]})


def test_a_check_of_the_configuration_reads_the_certificate(
    site: Site, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = site.source.tls
    names = {"certificate": files.certificate, "key": files.key, "ca": files.ca}
    config = tmp_path / "extender.yml"
    lines = "".join(f"  {name}: {path}\n" for name, path in names.items())
    config.write_text(f"usage:\n{lines}")
    loaded = load(config).usage
    assert loaded is not None
    assert (loaded.port, loaded.tls) == (5679, files)
    check = ["--check-config", "--config", str(config)]
    assert main.main(check) == 0
    for name, path in names.items():
        text = path.read_text()
        path.write_text("nonsense")
        assert main.main(check) == 2
        assert f"usage.{name}" in capsys.readouterr().err
        path.unlink()
        assert main.main(check) == 2
        assert f"usage.{name}: {path}: No such file" in capsys.readouterr().err
        path.write_text(text)
