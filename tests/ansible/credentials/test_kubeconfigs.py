"""A control plane's own kubeconfig is used on the controller, and may do nothing else there."""

import base64
import json
import pathlib
from typing import Any

import pytest
import yaml

from tests.ansible.api_server import node, serving
from tests.ansible.credentials.test_secrets import cluster as whole_cluster
from tests.ansible.rendering import ansible, run_role, text_of, words

pytestmark = pytest.mark.long

CREDENTIAL = json.dumps(
    {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "a-token"},
    }
)


def read_cluster(folder: pathlib.Path, user: dict[str, Any]) -> tuple[int, str]:
    """Read a cluster as preflight does, by a kubeconfig with this user on the host `cp1`."""
    with serving(folder, {"nodes": [node("gpu1", {})]}) as kubeconfig:
        document = json.loads(kubeconfig.read_text())
        document["users"][0]["user"] = user
        kubeconfig.write_text(yaml.safe_dump(document))
        role = {
            "import_role": {"name": "cluster_objects", "tasks_from": "preflight"},
            "vars": {
                "cluster_objects_admin_kubeconfig": str(kubeconfig),
            },
        }
        play = {"hosts": "cp1", "gather_facts": False, "tasks": [role]}
        (folder / "play.yml").write_text(yaml.safe_dump([play]))
        done = ansible(
            "ansible-playbook", "--inventory=cp1,", "--connection=local", f"{folder}/play.yml"
        )
    return done.returncode, words(done)


def test_a_hosts_kubeconfig_runs_no_program_here(tmp_path: pathlib.Path) -> None:
    ran = tmp_path / "ran"
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "sh",
        "args": ["-c", f"touch {ran}; echo '{CREDENTIAL}'"],
    }
    status, said = read_cluster(tmp_path, {"exec": program})
    assert not ran.exists(), "root of a control plane would be who runs the playbook"
    assert status != 0
    assert "of cp1 names its user by exec, which would act on the controller" in said


def test_a_hosts_kubeconfig_reads_no_token_here(tmp_path: pathlib.Path) -> None:
    (tmp_path / "id_ed25519").write_text("a-secret")
    status, said = read_cluster(tmp_path, {"tokenFile": f"{tmp_path}/id_ed25519"})
    assert status != 0
    assert "of cp1 names its user by tokenFile" in said


@pytest.mark.parametrize(
    "user", [pytest.param({}, marks=pytest.mark.nightly), {"token": "a-token"}]
)
def test_a_hosts_kubeconfig_with_its_own_key_is_used(
    tmp_path: pathlib.Path, user: dict[str, Any]
) -> None:
    status, said = read_cluster(tmp_path, user)
    assert status == 0, said


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_given_kubeconfig_that_is_no_file_is_named(tmp_path: pathlib.Path, name: str) -> None:
    given = {"cluster_objects_kubeconfig": str(tmp_path / name)}
    done = run_role(tmp_path, "cluster_objects", "preflight", given)
    assert done.returncode != 0
    assert f"cluster_objects_kubeconfig is {tmp_path / name}, and no file" in words(done)


@pytest.mark.parametrize(
    ("cluster", "given", "taken"),
    [
        ({"certificate-authority-data": "Y2E="}, False, "Y2E="),
        ({"certificate-authority": "ca.crt"}, True, base64.b64encode(b"of a file\n").decode()),
        ({"certificate-authority": "ca.crt"}, False, ""),  # it would be a file of the controller
        ({}, True, ""),
    ],
)
def test_hosts_know_the_api_server_by_the_administrators_authority(
    tmp_path: pathlib.Path, cluster: dict[str, str], given: bool, taken: str
) -> None:
    (tmp_path / "ca.crt").write_text("of a file\n")
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    text = json.dumps(document)
    (tmp_path / "config").write_text(text)
    variables: dict[str, Any] = {
        "cluster_objects_kubeconfig": str(tmp_path / "config") if given else "",
        "__cluster_objects_fetched": {"content": base64.b64encode(text.encode()).decode()},
    }
    found = text_of(tmp_path, "cluster_objects", "__cluster_objects_authority", variables)
    assert found == taken


def test_the_kubeconfigs_of_hosts_hold_no_token(tmp_path: pathlib.Path) -> None:
    told = "{{ [cluster_objects_extender_kubeconfig, cluster_objects_scheduler_kubeconfig] }}"
    with whole_cluster(tmp_path) as kubeconfig:
        variables = {
            "cluster_objects_kubeconfig": str(kubeconfig),
            "cluster_objects_scheduler": True,
        }
        role = {"import_role": {"name": "cluster_objects"}, "vars": variables}
        file = str(tmp_path / "told")
        write = {"copy": {"content": told, "dest": file, "mode": "0600"}}
        play = {"hosts": "cp1", "gather_facts": False, "tasks": [role, write]}
        (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
        done = ansible(
            "ansible-playbook", "--inventory=cp1,", "--connection=local", f"{tmp_path}/play.yml"
        )
        server = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    assert done.returncode == 0, done.stdout
    for name, found in zip(
        ("gpustack-extender", "gpustack-scheduler"), json.loads(pathlib.Path(file).read_text()),
        strict=True,
    ):  # fmt: skip
        assert found["users"] == [
            {"name": name, "user": {"tokenFile": f"/etc/gpustack/tokens/{name}"}}
        ]
        assert found["clusters"] == [{"name": "cluster", "cluster": {"server": server}}]
        assert found["contexts"][0]["context"] == {"cluster": "cluster", "user": name}
        assert found["current-context"] == found["contexts"][0]["name"]
