"""``gpustack doctor`` on a real API server: it knows the policies, and what they would refuse."""

import json
import pathlib

import pytest

from gpustack.adapters.kube import KubeClient
from gpustack.cli.main import main
from tests.admission.site import PODS, pod
from tests.control_plane import identity, plane
from tests.control_plane.fleet import KEYS

pytestmark = pytest.mark.testbed


def test_the_doctor_knows_the_policies_and_what_they_would_refuse(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("plane", "rendered"):
        (tmp_path / name).mkdir()
    with plane.start(tmp_path / "plane") as control:
        admin = KubeClient.from_kubeconfig(control.admin)
        before = pod(annotations={KEYS.gpu_topology: "nvlnk"})
        admin.post(PODS, before)
        words = ["doctor", "--kubeconfig", str(control.admin), "-o", "json"]
        assert main(words) == 1
        without = _found(capsys)
        identity.lay_policies(control, tmp_path / "rendered")
        assert main(words) == 1  # there is no GPU host
        found = _found(capsys)
    assert without["admission-policies"] == ("fail", "policy gpustack-decisions", "is missing")
    assert found["admission-policies"] == ("ok", "", "6 policies, as this release lays them")
    assert found["api-server"][0] == "ok"
    assert found["node-label"][0] == "fail"
    level, subject, text = found["pod-requests"]
    assert (level, subject) == ("warn", f"pod default/{before['metadata']['name']}")
    assert KEYS.gpu_topology in text


def _found(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str, str]]:
    """Return the first finding of each check."""
    findings = json.loads(capsys.readouterr().out)["findings"]
    return {
        each["check"]: (each["level"], each["subject"], each["found"])
        for each in reversed(findings)
    }
