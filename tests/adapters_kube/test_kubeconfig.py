"""Kubeconfig files are merged as kubectl merges them, and refused by file, line and field."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack.adapters import kube
from gpustack.adapters.kube import kubeconfig
from tests.fakes.kube_api import FakeKubeApi

NAMES = st.sampled_from(["a", "b", "c"])


def config(*names: str, current: str | None = None, mark: str = "", **user: Any) -> dict[str, Any]:
    """Return a kubeconfig of contexts; `mark` tells from which file an entry came."""
    return {
        **({} if current is None else {"current-context": current}),
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}{mark}:6443"}} for name in names
        ],
        "users": [{"name": name, "user": {"token": f"{name}{mark}", **user}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
    }


def write(path: Path, value: object) -> Path:
    path.write_text(yaml.safe_dump(value))
    return path


def refused(*paths: Path, context: str | None = None) -> str:
    with pytest.raises(kube.KubeConfigError) as caught:
        kube.KubeClient.of_context(kubeconfig.read(paths, context))
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.lists(NAMES, unique=True), NAMES | st.none()), min_size=1, max_size=4),
    NAMES | st.none(),
)
def test_the_first_file_that_sets_a_value_wins(
    tmp_path: Path, files: list[tuple[list[str], str | None]], context: str | None
) -> None:
    paths = [
        write(tmp_path / f"{at}", config(*names, current=current, mark=f"-{at}"))
        for at, (names, current) in enumerate(files)
    ]
    name = context or next((current for _, current in files if current), None)
    first = next((at for at, (names, _) in enumerate(files) if name in names), None)
    if first is None:
        refused(*paths, context=context)
        return
    found = kubeconfig.read(paths, context)
    assert found.name == name
    assert found.cluster == {"server": f"https://{name}-{first}:6443"}
    assert found.user == {"token": f"{name}-{first}"}


def test_a_file_of_a_list_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    there = write(tmp_path / "there", config("a", current="a"))
    found = kubeconfig.read([tmp_path / "nowhere", there, there / "below"])
    assert (found.name, found.origin) == ("a", str(there))
    with pytest.raises(kube.KubeConfigMissing, match=r"nowhere: No such file or directory$"):
        kubeconfig.read([tmp_path / "nowhere"])


def test_a_relative_path_is_relative_to_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    other = write(tmp_path / "first", config("b"))
    path = write(tmp_path / "deep" / "config", config("a", current="a", tokenFile="token"))
    assert kubeconfig.read([other, path]).user["tokenFile"] == str(tmp_path / "deep" / "token")


def changed(kind: str, **fields: Any) -> dict[str, Any]:
    value = config("a", current="a")
    [entry] = value[f"{kind}s"]
    entry[kind].update(fields)
    return value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (config("a"), ": current-context: is not set; there is a"),
        (config("a", "b", current="c"), ": no context is named 'c'; there is a, b"),
        ({"current-context": 7}, ":1: current-context: must be a text"),
        ({"contexts": {}}, ": current-context: is not set; there is none"),
        ({"contexts": {"a": {}}}, ":1: contexts: must be an array"),
        ({"contexts": [{}]}, ":2: contexts[0]: must have a name and an object context"),
        (
            {**config("a", current="a"), "clusters": []},
            ":4: contexts[0].context.cluster: no cluster is named 'a'; there is none",
        ),
        (changed("context", cluster=None), "context.cluster: is missing"),
        (changed("context", user="x"), "context.user: no user is named 'x'; there is a"),
        (changed("user", token=12345), "user.token: must be a text; put it in quotes"),
        (
            changed("user", **{"token": "12345\n"}),
            "its user's token has a character that no request",
        ),
        (
            changed("user", **{"token": "12345\u00e9"}),
            "its user's token has a character that no request",
        ),
        (changed("cluster", server=None), "cluster.server: '' is no server; write it as https://"),
        (
            changed("cluster", **{"certificate-authority-data": "&"}),
            "cluster.certificate-authority-data: is not base64",
        ),
        (changed("user", **{"as": "root"}), "user.as: impersonation is not supported"),
        (
            changed("user", **{"auth-provider": {"name": "gcp"}}),
            "user.auth-provider: 'gcp' is not supported, as in kubectl; use an exec plugin",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_named_by_file_line_and_field(
    tmp_path: Path, value: dict[str, Any], told: str
) -> None:
    path = write(tmp_path / "config", value)
    text = refused(path)
    assert text.startswith(f"kubeconfig {path}:")
    assert told in text
    assert "12345" not in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clusters: [a\nusers: []\n", ":2:6: is not YAML: expected ',' or ']'"),
        ("a: 1\na: 2\n", ":2:1: is not YAML: the key 'a' stands twice"),
        ("a: 1\n---\na: 2\n", ": holds 2 documents; leave one"),
        ("\xff", ": must be an object with clusters and contexts"),
    ],
)
def test_bad_yaml_is_one_line_with_file_line_and_column(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert refused(path).startswith(f"kubeconfig {path}{told}")


FIELDS = {
    "cluster": ["certificate-authority"],
    "user": ["client-certificate", "client-key", "tokenFile"],
}


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind in FIELDS for field in FIELDS[kind]]
)
def test_a_fifo_that_a_field_names_is_refused_at_once(
    tmp_path: Path, kind: str, field: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    value = config("a", current="a")
    del value["users"][0]["user"]["token"]
    value[f"{kind}s"][0][kind][field] = "fifo"
    path = write(tmp_path / "config", value)
    text = refused(path)
    assert text.startswith(f"kubeconfig {path}:")
    assert text.endswith(f".{field}: {tmp_path}/fifo is no regular file; put one in its place")


def test_an_endless_kubeconfig_is_refused_by_its_length(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with path.open("wb") as file:
        file.truncate((1 << 24) + 1)
    assert refused(path) == f"kubeconfig {path}: is longer than {1 << 24} bytes"


def test_a_name_that_stands_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config("a", "a", current="a"))
    assert "clusters[1]: the name 'a' stands twice" in refused(path)


def plugin(tmp_path: Path, script: str, **fields: object) -> Path:
    program = tmp_path / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    api = "client.authentication.k8s.io/v1"
    return write(
        tmp_path / "config",
        changed("user", token=None, exec={"apiVersion": api, "command": "./plugin", **fields}),
    )


def test_a_plugin_beside_the_file_gives_the_token(tmp_path: Path) -> None:
    answer = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "t"}}'
    )
    path = plugin(tmp_path, f"echo '{answer}'")
    with FakeKubeApi() as api:
        value = yaml.safe_load(path.read_text())
        value["clusters"][0]["cluster"]["server"] = api.url
        kube.KubeClient.from_kubeconfig(write(path, value)).get_raw("/version")
    assert api.requests[-1].headers["authorization"] == "Bearer t"


@pytest.mark.parametrize("beside", [None, "older"])
def test_a_renewed_token_file_counts_at_the_next_request(
    tmp_path: Path, beside: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with FakeKubeApi() as api:
        value = changed("user", token=beside, tokenFile="token")
        value["clusters"][0]["cluster"]["server"] = api.url
        client = kube.KubeClient.from_kubeconfig(write(tmp_path / "config", value))

        def shown() -> str:
            client.get_raw("/version")
            return api.requests[-1].headers["authorization"]

        assert shown() == "Bearer first"
        token.write_text("second")
        assert shown() == "Bearer second"
        # Who renews it is late, or has no room on the disk: what was there may still last.
        token.write_text("")
        assert [shown(), shown()] == ["Bearer second"] * 2
        token.write_text("a\nb")
        assert shown() == "Bearer second"
        token.unlink()
        assert shown() == "Bearer second"
        token.write_text("third")
        assert shown() == "Bearer third"
    told = [record.getMessage() for record in caplog.records if "tokenFile" in record.message]
    assert [each.rpartition(f"{token}: ")[2] for each in told] == [
        "is empty; keeping the token before",
        "has a line end, or no token's character; keeping the token before",
        "No such file or directory; keeping the token before",
    ]


@pytest.mark.parametrize(
    ("script", "fields", "told"),
    [
        ("echo no ticket >&2; exit 3", {}, "exec: process returned 3. no ticket"),
        ("echo {}", {}, "exec: malformed response. missing key 'apiVersion'"),
        ("", {"command": "nowhere-to-be-found"}, "exec nowhere-to-be-found gives no credentials"),
        (
            "",
            {"command": "nowhere-to-be-found", "installHint": "Get it\nhere."},
            ": there is no such program; Get it here.",
        ),
    ],
)
def test_a_plugin_without_credentials_is_named(
    tmp_path: Path,
    script: str,
    fields: dict[str, object],
    told: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = plugin(tmp_path, script, **fields)
    text = refused(path)
    assert text.startswith(f"kubeconfig {path}: context a: exec ")
    assert told in text
    assert capfd.readouterr().err == ""
