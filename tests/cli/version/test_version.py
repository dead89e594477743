"""``gpustack version``: of a cluster's parts, and of a host's."""

import http.server
import json
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import gpustack
from gpustack.cli.doctor.host.reading import HostLocations
from gpustack.cli.main import main
from gpustack.cli.version import host_parts, version
from gpustack.cli.version.part import Part
from gpustack.wire import schemas
from gpustack.wire.nodes import NodeSoftware, encode_devices
from tests.adapters_kube.test_client import self_signed
from tests.cli.doctor.good_cluster import kubeconfig
from tests.cli.doctor.good_host import DRIVER, GoodHost, scheduler_config
from tests.cli.snapshots import KEYS, NODE, write
from tests.fakes.kube_api import FakeKubeApi

_INFO = {"kubeletVersion": "v1.35.1", "kernelVersion": "6.1.0", "osImage": "Debian"}


def described(name: str, **software: str) -> dict[str, Any]:
    text = encode_devices(NODE, NodeSoftware(**software))
    metadata = {"name": name, "annotations": {KEYS.gpu_devices: text}}
    return {"kind": "Node", "metadata": metadata, "status": {"nodeInfo": _INFO}}


def ask(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, set[str]]:
    """Return each part's versions, of an answer that has the form of its schema."""
    assert main(["version", *words, "-o", "json"]) == status
    return versions(capsys)


def versions(capsys: pytest.CaptureFixture[str]) -> dict[str, set[str]]:
    value = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("version"), value) == []
    found: dict[str, set[str]] = {}
    for each in value["parts"]:
        found.setdefault(each["part"], set()).add(each["problem"] or each["version"])
    return found


def test_each_part_of_a_cluster_says_its_version(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeKubeApi() as api:
        api.create("nodes", described("gpu1", agent="0.2.0", hook="0.2.0-0badf00d"))
        api.create("nodes", described("gpu2", agent="0.1.9", hook="0.2.0-0badf00d"))
        found = ask(capsys, *kubeconfig(api, tmp_path))
    assert found.pop("api-server")
    assert found == {
        "client": {gpustack.__version__},
        "agent": {"0.1.9", "0.2.0"},
        "hook": {"0.2.0-0badf00d"},
        "driver": {NODE.driver},
        "cuda": {NODE.cuda},
        "kubelet": {"v1.35.1"},
        "kernel": {"6.1.0"},
        "system": {"Debian"},
    }


def test_a_line_has_the_nodes_of_one_version(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [described(f"gpu{number}", agent="0.2.0") for number in range(300)]
    path = write(tmp_path, *nodes, described("old"))
    assert main(["version", "--snapshot", path]) == 0
    lines = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    assert ["agent", "0.2.0", "300", "gpu0, gpu1, gpu10, gpu100 and 296 more"] in lines
    assert ["agent", "unknown", "1", "old"] in lines


def test_a_record_that_can_not_be_read_is_told_and_the_rest_is_shown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = described("bad")
    bad["metadata"]["annotations"][KEYS.gpu_devices] = '{"agent": 1}'
    bad["status"]["nodeInfo"] = {"kubeletVersion": "v1\x1b[31m" + "9" * 5000, "osImage": 7}
    path = write(tmp_path, bad, described("good", agent="0.2.0"))
    assert main(["version", "--snapshot", path]) == 1
    said = capsys.readouterr()
    assert "gpustack: agent of node bad: annotation tencent.com/gpu-devices" in said.err
    assert "0.2.0" in said.out
    assert "\x1b" not in said.out
    assert max(map(len, said.out.splitlines())) < 200


def test_an_api_server_that_hides_its_version_is_told(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeKubeApi() as api:
        api.faults.fail("GET", r"^/version", status=403, times=10)
        api.create("nodes", described("gpu1", agent="0.2.0"))
        found = ask(capsys, *kubeconfig(api, tmp_path), status=1)
    assert "403" in found["api-server"].pop()
    assert found["agent"] == {"0.2.0"}


def test_a_hosts_parts_say_what_runs_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with GoodHost(tmp_path, monkeypatch) as good, extender(b"0.3.0\n") as address:
        config = scheduler_config()
        config["extenders"][0]["urlPrefix"] = f"http://{address}/scheduler"
        good.scheduler.write_text(json.dumps(config))
        assert version.show("json", host_parts.read(good.paths)) == 0
        hook = good.agent_config["hook"]["version"]
    found = versions(capsys)
    assert found.pop("kernel")
    assert found == {
        "agent": {gpustack.__version__},
        "hook": {hook},
        "driver": {DRIVER},
        "driver-module": {DRIVER},
        "extender": {"0.3.0"},
    }


@pytest.mark.parametrize("said", [b"\xff\x1b[31m", b"x" * 70_000])
def test_what_is_no_extender_has_no_version(tmp_path: pathlib.Path, said: bytes) -> None:
    with extender(said) as address:
        config = scheduler_config()
        config["extenders"][0]["urlPrefix"] = f"http://{address}/scheduler"
        found = of_extender(tmp_path, config)
    assert found.problem
    assert not found.version


@pytest.mark.parametrize("known", [True, False])
def test_the_extender_is_asked_with_its_schedulers_certificate(
    tmp_path: pathlib.Path, known: bool
) -> None:
    for name in ("ca", "client"):
        self_signed(tmp_path, name)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "ca.crt", tmp_path / "ca.key")
    tls.load_verify_locations(tmp_path / ("client.crt" if known else "ca.crt"))
    tls.verify_mode = ssl.CERT_REQUIRED
    with extender(b"0.3.0\n", tls) as address:
        config = scheduler_config()
        config["extenders"][0]["urlPrefix"] = f"https://{address}/scheduler"
        config["extenders"][0]["tlsConfig"] = {
            "caFile": str(tmp_path / "ca.crt"),
            "certFile": str(tmp_path / "client.crt"),
            "keyFile": str(tmp_path / "client.key"),
        }
        found = of_extender(tmp_path, config)
    assert (found.version == "0.3.0") == known
    assert bool(found.problem) != known


@pytest.mark.parametrize(
    "tls_config", [None, 1, {"caFile": "/none"}, {"caFile": 1}, {"certFile": None}]
)
def test_a_certificate_that_can_not_be_read_is_told(
    tmp_path: pathlib.Path, tls_config: object
) -> None:
    config = scheduler_config()
    config["extenders"][0]["tlsConfig"] = tls_config
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config["extenders"][0]["urlPrefix"] = f"https://127.0.0.1:{port}/scheduler"
    assert of_extender(tmp_path, config).problem.startswith(f"https://127.0.0.1:{port}/version: ")


def of_extender(folder: pathlib.Path, config: dict[str, Any]) -> Part:
    """Return what a host without an agent says of its extender."""
    (folder / "scheduler").write_text(json.dumps(config))
    where = HostLocations(agent_config=folder / "none", schedulers=(folder / "scheduler",))
    found = {each.part: each for each in host_parts.read(where)}
    assert sorted(found) == ["extender", "kernel"]
    return found["extender"]


def test_a_host_has_no_kubeconfig(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["version", "--host", "--kubeconfig", "x"])
    assert "--kubeconfig: not allowed with argument --host" in capsys.readouterr().err


@contextmanager
def extender(said: bytes, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Answer each path with these bytes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/version" else 404)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
