"""The agent's metrics for other machines, beside its pages for this host."""

import pathlib
import urllib.request

import pytest

from gpustack.agent import main
from tests.adapters.web.reading import TOKEN, Site
from tests.agent.host import Host


@pytest.fixture
def site(host: Host, tmp_path: pathlib.Path) -> Site:
    """The files and the account of readers, at the host's API server."""
    folder = tmp_path / "site"
    folder.mkdir()
    made = Site(folder, host.api)
    host.configuration["metrics"] = {
        "listen": "127.0.0.1:0",
        "certificate": str(folder / "server.crt"),
        "key": str(folder / "server.key"),
        "client_ca": str(made.root.certificate),
    }
    return made


def test_another_machine_reads_the_metrics_and_nothing_else(host: Host, site: Site) -> None:
    host.start_agent()
    local, site.port = host.agent.web.ports
    for path in ("/metrics", "/metric"):
        answer = site.ask(TOKEN, path=path)
        assert (answer.status, b"gpustack_build_info" in answer.body) == (200, True)
    assert site.ask(client=site.authority.client("prometheus")).status == 200
    assert {site.ask(TOKEN, path=path).status for path in ("/usage", "/graph", "/readyz")} == {404}
    assert site.ask().status == 401
    with urllib.request.urlopen(f"http://127.0.0.1:{local}/usage") as answer:
        assert answer.status == 200


def test_an_agent_starts_before_its_certificate_is_there(host: Host, site: Site) -> None:
    (site.folder / "server.crt").unlink()
    host.start_agent()
    site.port = host.agent.web.ports[1]
    site.renew()
    assert site.ask(TOKEN).status == 200


def test_a_check_of_the_configuration_reads_the_certificate(
    host: Host, site: Site, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.yml"
    host.write_configuration(file)
    check = ["--check-config", "--config", str(file)]
    assert main.main(check) == 0
    (site.folder / "server.key").write_text("nonsense")
    assert main.main(check) == 2
    assert "metrics.certificate and metrics.key: " in capsys.readouterr().err
    host.configuration["metrics"] |= {"client_ca": None, "tokens": False}
    host.write_configuration(file)
    assert main.main(check) == 2
    assert "metrics: nobody may read" in capsys.readouterr().err
