"""The extender's metrics for other machines; the real process on real ports."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender import main
from tests.adapters.web.reading import TOKEN, Site
from tests.control_plane import processes
from tests.extender.apiserver import rights
from tests.extender.client import eventually
from tests.extender.process import process
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    with FakeKubeApi() as api:
        yield Site(folder, api, port=processes.free_port())
    assert rights.forbidden(api.requests, token_reviews=True) == []


def _section(site: Site) -> dict[str, Any]:
    return {
        "listen": f"127.0.0.1:{site.port}",
        "certificate": str(site.folder / "server.crt"),
        "key": str(site.folder / "server.key"),
        "client_ca": str(site.root.certificate),
    }


@pytest.mark.long
def test_another_machine_reads_the_metrics_and_nothing_else(site: Site, tmp_path: Path) -> None:
    with process(site.api, tmp_path, metrics=_section(site)) as running:
        answer = site.ask(TOKEN)
        assert answer.status == 200
        assert b"gpustack_extender_readers_dropped_total 0.0" in answer.body
        assert site.ask(client=site.authority.client("prometheus")).status == 200
        assert site.ask().status == 401
        assert site.ask(TOKEN, path="/v1/cluster").status == 404
        assert site.ask(TOKEN, path="/scheduler/filter").status == 404
        assert running.call("GET", "/metrics").status == 200
        # A new worker process goes on listening.
        before = running.worker
        os.kill(before, signal.SIGKILL)
        eventually(lambda: running.worker != before, lambda: running.said)
        assert site.ask(TOKEN).status == 200
        assert running.stop() == 0


@pytest.mark.long
def test_an_address_that_is_taken_ends_the_command(site: Site, tmp_path: Path) -> None:
    with process(site.api, tmp_path, metrics=_section(site)):
        other = tmp_path / "other"
        other.mkdir()
        config = other / "extender.yml"
        kubeconfig = str(site.api.write_kubeconfig(other / "kubeconfig"))
        values = {"listen": "127.0.0.1:0", "kubeconfig": kubeconfig, "metrics": _section(site)}
        config.write_text(yaml.safe_dump(values))
        command = [sys.executable, "-m", "extender.main", "--config", str(config)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert f"metrics.listen: 127.0.0.1:{site.port}: Address already in use" in ended.stderr


def test_a_check_of_the_configuration_reads_the_certificate(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "extender.yml"
    config.write_text(yaml.safe_dump({"metrics": _section(site)}))
    check = ["--check-config", "--config", str(config)]
    assert main.main(check) == 0
    (site.folder / "server.crt").unlink()
    assert main.main(check) == 2
    assert "metrics.certificate: " in capsys.readouterr().err
