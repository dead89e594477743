"""0.1.0 has the hook at other paths in containers: agent and hook go together, or no share starts.

The playbook refuses the two pairs before anything changes (tests/ansible/gpu_hosts/test_hook.py).
"""

import subprocess
import sys

import pytest

from tests.fakes.kubelet import AdmissionError
from tests.simgpu_tests.machine import first_line
from tests.versions import tenant
from tests.versions.cluster import CARD_BYTES, Cluster
from tests.versions.pods import share, whole_card
from tests.versions.releases import Releases
from tests.versions.test_matrix import ALLOCATE

pytestmark = pytest.mark.nightly


def test_this_agent_gives_no_share_the_hook_of_0_1_0(cluster: Cluster, releases: Releases) -> None:
    ours, old = releases["ours"], releases["old"]
    cluster.start_extender(ours)
    cluster.start_agent(ours, hook=old, ready=False)
    part, whole = cluster.schedule(share("part")), cluster.schedule(whole_card("whole"))
    with pytest.raises(AdmissionError, match=r"HostIncomplete: .*0\.1\.0-.* is a build for other"):
        cluster.admit(part)
    assert tenant.hook_of(cluster.admit(whole)) is None


def test_a_share_of_0_1_0_with_this_hook_would_have_no_limits(
    cluster: Cluster, releases: Releases
) -> None:
    """Why the pair is refused: that agent looks at the build's sum, and not at its path."""
    ours, old = releases["ours"], releases["old"]
    cluster.start_extender(ours)
    cluster.start_agent(old, hook=ours)
    part = cluster.schedule(share("part"))
    answer = cluster.admit(part)
    with cluster.tenant(part, answer, ours, ALLOCATE) as process:
        assert first_line(process) == f"{CARD_BYTES} 0"


def test_the_agent_of_0_1_0_refuses_a_configuration_of_this_tree(
    cluster: Cluster, releases: Releases
) -> None:
    """The second guard: what the role would write for it names keys that it doesn't know."""
    cluster.start_extender(releases["ours"])
    cluster.start_agent(releases["ours"], hook=releases["ours"])
    command = [sys.executable, "-P", "-m", "gpustack.agent.main", "--check-config", "--config"]
    done = subprocess.run(
        [*command, cluster.root / "agent.yml"],
        env={"PYTHONPATH": str(releases["old"].source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "mount_socket" in done.stderr
