"""A report of a fault has what finds the fault, no secret, and a bounded size."""

import json
import pathlib
import shutil

import pytest

from tests.ansible.api_server import write_kubeconfig
from tests.ansible.preflight.preflight_host import write_program
from tests.ansible.support import support_site
from tests.ansible.support.support_site import SECRETS, cluster, collect, daemon, lay

pytestmark = pytest.mark.long


def assert_no_secret(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == []


def test_a_report_has_states_and_logs_and_no_secret(tmp_path: pathlib.Path) -> None:
    lay(tmp_path)
    with daemon() as address, cluster(tmp_path) as kubeconfig:
        said, files = collect(
            tmp_path, address=address, kubeconfig=kubeconfig, arguments=("-vvv", "--diff")
        )
    for text in (said, *files, *files.values()):
        assert_no_secret(text)
    log = files["gpu1/gpustack-agent.service.log"]
    assert "node not published yet node=gpu1: Unauthorized …" in log
    assert "certificates read again file=/etc/gpustack/pki/extender.crt bytes=123456" in log
    assert "pod=trainer-0" in log
    unit = json.loads(files["gpu1/units.json"])["gpustack-agent.service"]
    assert unit.pop("StatusText").startswith("not ready: …")
    assert unit == {"ActiveState": "active", "NRestarts": "3", "SubState": "…"}
    assert [each[1:] for each in json.loads(files["gpu1/xids.json"])] == [["0000:07:00", 79]]
    assert (
        "0,GPU-01234567-89ab-cdef-0123-456789abcdef,NVIDIA A100-SXM4-80GB,535.261.03,81920"
        in (files["gpu1/cards.csv"])
    )
    assert (
        'node_name: "gpu1"\nlog_level: info\nsample_period_seconds: 85899'
        in (files["gpu1/agent.yml"])
    )
    assert "kubeconfig /etc/kubernetes/kubelet.conf: Unauthorized" in files["gpu1/agent-readyz.txt"]
    assert (
        'gpustack_closed_cards{pod="trainer-0",reason="…== …"} 85899345920'
        in (files["gpu1/agent-metrics.txt"])
    )
    assert json.loads(files["gpu1/host.json"])["versions"]["kubelet"] == "1.34.4"
    assert "2036 GMT" in files["cp1/certificates.json"]
    assert json.loads(files["cp1/extender-decisions.json"])["decisions"][0]["name"] == "trainer-0"
    assert "gpu1/extender-readyz.txt" not in files


@pytest.mark.nightly
def test_a_report_has_the_clusters_pods_with_cards_alone(tmp_path: pathlib.Path) -> None:
    lay(tmp_path)
    with daemon() as address, cluster(tmp_path) as kubeconfig:
        _, files = collect(tmp_path, address=address, kubeconfig=kubeconfig)
    (pod,) = map(json.loads, files["cluster/pods.jsonl"].splitlines())
    assert pod["metadata"]["name"] == "trainer-0"
    assert pod["annotations"] == {"predicate-gpu-idx-0": "0"}
    amounts = {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "8"}
    assert pod["spec"]["containers"] == [{"name": "main", "limits": amounts}]
    (node,) = map(json.loads, files["cluster/nodes.jsonl"].splitlines())
    assert node["cards"] == {"driver": "535.261.03"}
    assert node["violations"] == {"violations": [{"reason": "ShareExceeded"}]}
    assert [json.loads(line)["reason"] for line in files["cluster/events.jsonl"].splitlines()] == [
        "CardQuarantined"
    ] * 2  # the fake answers each of both selectors with all


def test_what_is_down_is_named_and_the_rest_is_there(tmp_path: pathlib.Path) -> None:
    root = lay(tmp_path)
    # of a daemon that never answered, and of an installation that was cut short
    (root / "var/lib/gpustack/checkpoint.json").unlink()
    (root / "etc/gpustack/agent.yml").unlink()
    shutil.rmtree(root / "opt/gpustack/venv")
    (tmp_path / "programs/openssl").write_text("#!/bin/sh\nexit 1\n")
    dead = f"127.0.0.1:{support_site.closed_port()}"
    kubeconfig = write_kubeconfig(tmp_path, support_site.closed_port())
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    said, files = collect(
        tmp_path, address=dead, kubeconfig=kubeconfig, hosts={"gpu2": gone},
        support_cluster_seconds=20,
    )  # fmt: skip
    lacks = files["README.txt"].partition("Left out here:\n")[2].splitlines()
    for line in (
        "- cluster: nothing of it is here: it didn't answer, or the collection failed (the run's"
        " output says)",
        "- gpu2: nothing of it is here: it didn't answer, or the collection failed (the run's"
        " output says)",
        "- gpu1/agent-readyz.txt: Connection refused",
        "- gpu1/agent.yml: No such file or directory",
        "- gpu1/gpustack-agent.service.log: without gpustack's environment its own words can't be"
        " told",
        "- cp1/certificates.json: openssl ended with status 1",
    ):
        assert line in lacks
    assert "ActiveState" in files["gpu1/units.json"]
    assert "ActiveState" in files["cp1/units.json"]
    assert "gpu2: nothing of it is here" in said


@pytest.mark.nightly
def test_what_never_answers_is_given_up(tmp_path: pathlib.Path) -> None:
    lay(tmp_path)
    write_program(tmp_path, "nvidia-smi", "exec sleep 600")
    with daemon() as address, cluster(tmp_path) as kubeconfig:
        _, files = collect(tmp_path, address=address, kubeconfig=kubeconfig, support_seconds=6)
    assert "- gpu1/cards.csv: no answer within 6 s" in files["README.txt"]
    assert "gpu1/agent.yml" in files


def test_a_report_is_bounded_per_file_and_in_all(tmp_path: pathlib.Path) -> None:
    lay(tmp_path)
    messages = [f"node published node=gpu1 cards={at}" for at in range(999, 0, -1)]
    lines = [support_site.entry(text, at) for at, text in enumerate(messages)]
    (tmp_path / "journalctl.txt").write_text("\n".join(reversed(lines)) + "\n")
    with daemon() as address, cluster(tmp_path) as kubeconfig:
        _, files = collect(
            tmp_path, address=address, kubeconfig=kubeconfig, support_file_bytes=5000,
            support_bytes=12_000,
        )  # fmt: skip
    kept = {name: text for name, text in files.items() if name != "README.txt"}
    assert max(len(text.encode()) for text in kept.values()) <= 5000
    assert sum(len(text.encode()) for text in kept.values()) <= 12_000
    (log, *_) = (text for name, text in kept.items() if name.endswith("service.log"))
    assert log.splitlines()[-1].endswith("node published node=gpu1 cards=1"), "the newest is kept"
    assert "gpu1/gpustack-agent.service.log: only its last " in files["README.txt"]
    assert "bytes don't fit into 12000 of all files" in files["README.txt"]
    assert "gpu1/units.json" in kept


@pytest.mark.nightly
def test_a_report_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    lay(tmp_path)
    with daemon() as address, cluster(tmp_path) as kubeconfig:
        collect(tmp_path, address=address, kubeconfig=kubeconfig, arguments=("--check",))
    assert (tmp_path / "report.tar.gz").stat().st_mode & 0o777 == 0o600
