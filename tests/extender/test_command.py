"""The command `gpustack-extender`: configuration, and the real process under gunicorn."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gpustack
from extender import main
from tests.extender.bench import eventually, node, pod
from tests.fakes.kube_api import FakeKubeApi


def write(folder: Path, **values: Any) -> Path:
    path = folder / "extender.yml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_check_config_accepts_the_defaults(tmp_path: Path) -> None:
    assert main.main(["--config", str(write(tmp_path)), "--check-config"]) == 0


@pytest.mark.parametrize("listen", ["127.0.0.1:3456", "localhost:3456", "[::1]:3456"])
def test_check_config_accepts_loopback(tmp_path: Path, listen: str) -> None:
    path = write(tmp_path, listen=listen)
    assert main.main(["--config", str(path), "--check-config"]) == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"listen": "0.0.0.0:3456"}, "loopback"),
        ({"listen": "192.0.2.1:3456"}, "loopback"),
        ({"listen": "[::]:3456"}, "loopback"),
        ({"listen": "127.0.0.1"}, "listen"),
        ({"listen": "127.0.0.1:70000"}, "no such port"),
        ({"listen": "1.2.3:80"}, "not an IP address"),
        ({"reservation_seconds": 5}, "reservation_seconds"),
        ({"reservation_seconds": "long"}, "reservation_seconds"),
        ({"log_level": "loud"}, "log_level"),
        ({"kubeconfg": "/x"}, "kubeconfg"),
    ],
)
def test_check_config_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], values: dict[str, Any], words: str
) -> None:
    path = write(tmp_path, **values)
    assert main.main(["--config", str(path), "--check-config"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert str(path) in said


def test_a_missing_configuration_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--config", str(tmp_path / "nowhere.yml")]) == 2
    assert "nowhere.yml" in capsys.readouterr().err


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    config = write(tmp_path, kubeconfig=str(tmp_path / "nowhere"))
    ended = subprocess.run(
        [sys.executable, "-m", "extender.main", "--config", str(config)],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("<3>")
    assert f"kubeconfig {tmp_path / 'nowhere'}: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == gpustack.__version__


@contextlib.contextmanager
def process(api: FakeKubeApi, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    kubeconfig = str(api.write_kubeconfig(folder / "kubeconfig"))
    config = write(folder, listen=f"127.0.0.1:{port}", kubeconfig=kubeconfig)
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "extender.main", "--config", str(config)], stderr=log
        )
    try:
        yield running, f"http://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_the_process_decides_and_ends_cleanly_on_sigterm(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", node("gpu1"))
    with process(api, tmp_path) as (running, url):
        eventually(lambda: ready(url))
        body = {"Pod": api.create("pods", pod("p", 50, 32)), "NodeNames": ["gpu1"]}
        request = urllib.request.Request(
            f"{url}/scheduler/predicates", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            assert json.load(response)["NodeNames"] == ["gpu1"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=15) == 0
    log = (tmp_path / "log").read_text()
    assert "<6>extender.predicates: placed pod=default/p node=gpu1" in log
    assert "Traceback" not in log
