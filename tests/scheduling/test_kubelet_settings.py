"""What our documents tell operators to put into a kubelet's configuration, read by a real one."""

import pathlib
import re
import subprocess

import pytest
import yaml

from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed
MANUAL = pathlib.Path(__file__).parents[2] / "docs" / "operations.md"


def _refusal(folder: pathlib.Path, gates: dict[str, bool]) -> str:
    """Return what a kubelet with these gates says last; its port ends it before it does a thing."""
    file = folder / "kubelet.yml"
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    file.write_text(yaml.safe_dump({**kind, "featureGates": gates, "port": -7}))
    ended = subprocess.run(
        [kubernetes.CURRENT.bin / "kubelet", f"--config={file}", f"--root-dir={folder}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    return ended.stderr


@pytest.mark.skipif(
    kubernetes.CURRENT is kubernetes.OLDER, reason="1.34 has one of the gates, and it is off"
)
def test_a_kubelet_takes_the_gates_that_the_manual_names(tmp_path: pathlib.Path) -> None:
    [line] = re.findall(r"`featureGates: (\{ResourceHealthStatus[^`]+)`", MANUAL.read_text())
    said = _refusal(tmp_path, yaml.safe_load(line))
    assert "panic" not in said
    assert "port (--port) -7" in said
    assert "depends on features" in _refusal(tmp_path, {"ResourceHealthStatus": False})
