"""The command `gpustack-extender`: configuration, and the real process under gunicorn."""

import ipaddress
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import gpustack
from extender import main, settings
from gpustack.adapters.web.listen_address import is_loopback, split_listen
from gpustack.wire.nodes import NodeLabels
from tests.extender.client import eventually
from tests.extender.mini_cluster import PREDICATES, node, pod
from tests.extender.process import process
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
        ({"policy": "best"}, "policy"),
        ({"quota": {"on_eror": "keep"}}, "quota"),
        ({"quota": {"on_error": "ignore"}}, "quota.on_error"),
        ({"quota_on_error": "ignore"}, "quota_on_error"),
        ({"QuotaConfigMapName": "a", "quota": {"name": "b"}}, "QuotaConfigMapName"),
        ({"tls": {"certificate": "/x", "key": "/x"}}, "client_ca"),
        ({"tls": {"certificate": "/x", "key": "/x", "client_ca": "/x"}}, "tls.certificate: /x"),
        ({"stale_seconds": 60, "watch_idle_seconds": 90}, "stale_seconds"),
        ({"request_seconds": 0}, "request_seconds"),
        ({"decision_seconds": float("nan")}, ".nan is not a number"),
        ({"quota": {"namespace": "../kube-system"}}, "quota.namespace"),
        ({"quota": {"name": "gpu_quota"}}, "quota.name"),
        ({"labels": {"model": "gpu model"}}, "labels.model"),
        ({"GPUPoolLabel": "a/b/c"}, "GPUPoolLabel"),
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


def test_the_configuration_of_the_original_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gpu-admission.config"
    names = ("QuotaConfigMapName", "QuotaConfigMapNamespace", "GPUModelLabel", "GPUPoolLabel")
    path.write_text(json.dumps({name: name.lower() for name in names}))
    loaded = settings.load(path)
    assert loaded.quota.name == "quotaconfigmapname"
    assert loaded.quota.namespace == "quotaconfigmapnamespace"
    assert loaded.labels == NodeLabels(model="gpumodellabel", pool="gpupoollabel")


def test_the_contracts_name_of_on_error_is_read(tmp_path: Path) -> None:
    assert not settings.load(write(tmp_path)).quota.deny
    assert settings.load(write(tmp_path, quota_on_error="deny")).quota.deny
    assert settings.load(write(tmp_path, quota={"on_error": "deny"})).quota.deny


@given(st.ip_addresses())
def test_plain_http_is_for_this_host_only_whatever_the_address(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    _, _, problem = split_listen(f"{host}:3456", tls=False)
    assert (problem == "") == is_loopback(str(address))
    assert split_listen(f"{host}:3456", tls=True) == (str(address), 3456, "")


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.1", False),
        ("0.0.0.0", False),
        ("192.0.2.1", False),
    ],
)
def test_loopback_is_known_in_both_families(host: str, ours: bool) -> None:
    assert is_loopback(host) is ours


@pytest.mark.parametrize("option", ["--config", "--snapshot", "--listen"])
def test_an_option_that_is_given_twice_is_refused_by_name(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main.main([option, "a", option, "b"])
    assert f"argument {option}: given twice; give it once" in capsys.readouterr().err


def test_a_missing_configuration_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--config", str(tmp_path / "nowhere.yml")]) == 2
    assert "nowhere.yml" in capsys.readouterr().err


@pytest.mark.long
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


@pytest.mark.long
def test_a_line_break_in_a_message_begins_no_line_of_the_journal(tmp_path: Path) -> None:
    config = write(tmp_path, kubeconfig="/nowhere\n<0>kernel: panic")
    ended = subprocess.run(
        [sys.executable, "-m", "extender.main", "--config", str(config)],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("<3>")
    assert r"\n<0>kernel: panic" in line


@pytest.mark.long
def test_nothing_starts_a_second_process_that_decides(api: FakeKubeApi, tmp_path: Path) -> None:
    with process(api, tmp_path) as started:
        for name in ("SIGHUP", "SIGTTIN", "SIGUSR2"):
            started.signal(getattr(signal, name))
            started.says(f"{name} is ignored; ")
        eventually(lambda: started.call("GET", "/readyz").status == 200)
        assert started.stop() == 0
    assert started.said.count("Booting worker") == 1


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == gpustack.__version__


def test_the_process_decides_and_ends_cleanly_on_sigterm(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", node("gpu1"))
    with process(api, tmp_path) as started:
        eventually(lambda: started.call("GET", "/readyz").status == 200)
        body = {"Pod": api.create("pods", pod("p", 50, 32)), "NodeNames": ["gpu1"]}
        answer = started.call("POST", PREDICATES, json.dumps(body).encode())
        assert answer.body["NodeNames"] == ["gpu1"]
        assert started.stop() == 0
    assert "placed pod=default/p node=gpu1" in started.said
    assert "Traceback" not in started.said
    assert all(line.startswith(("<", "  ")) for line in started.said.splitlines())
