"""Three control planes, one of them broken: GPU hosts stay as they are, and schedulers go on.

They share cp1's etcd; an API server, a controller manager and a scheduler each are their own.
"""

import collections.abc

import pytest

from tests.cluster import opening, rollout, workloads
from tests.cluster.kubectl import wait_for
from tests.cluster.site import Site

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

NAME = "planes"
PLANES = ("cp1", "cp2", "cp3")
CONFIG = "/etc/kubernetes/scheduler-config.yaml"
DROP_IN = "/etc/systemd/system/kube-scheduler.service.d/broken.conf"
UNIT = "kube-scheduler.service"
# The scheduler's own answer, at its own address.
HEALTH = """
import ssl, urllib.request
context = ssl._create_unverified_context()
print(urllib.request.urlopen("https://127.0.0.1:10259/healthz", context=context).read().decode())
"""
# What stops the run, and when: the second finds nothing before its scheduler is restarted.
BREAKS = {
    "preflight": "ExecStart=\nExecStart=/usr/local/bin/kube-scheduler --config=/etc/other.yaml",
    "apply": f"ExecStartPre=/bin/sh -c '! grep --quiet {{seconds}}s {CONFIG}'",
}
CASES = [(host, when) for when in BREAKS for host in PLANES]


@pytest.fixture(scope="module")
def planes() -> collections.abc.Iterator[Site]:
    """Start the hosts, without the product."""
    yield opening.open_site(NAME, gpu_hosts=2, control_planes=len(PLANES))
    opening.close_site(NAME)


def run(planes: Site, *extra: str) -> None:
    planes.playbook("site", "-i", str(planes.state / "inventory.yml"), *extra)


def configurations(planes: Site) -> dict[str, str]:
    return {host: planes.on(host, "cat", CONFIG) for host in PLANES}


def schedulers_answer(planes: Site) -> list[str]:
    return [planes.on(host, "python3", "-c", HEALTH).strip() for host in PLANES]


def leader(planes: Site) -> str:
    lease = planes.kubectl.get("lease", "kube-scheduler", "-n", "kube-system")
    return str(lease["spec"]["holderIdentity"]).partition("_")[0]


def let_another_lead(planes: Site) -> None:
    before = leader(planes)
    planes.on(before, "systemctl", "stop", UNIT)
    wait_for("another scheduler to lead", lambda: leader(planes) not in ("", before))


@pytest.mark.parametrize(("broken", "when"), CASES)
def test_whichever_control_plane_breaks_each_scheduler_goes_on(
    planes: Site, broken: str, when: str
) -> None:
    seconds = 20 + CASES.index((broken, when))  # each run has something to change
    before = configurations(planes)
    drop_in = "[Service]\n" + BREAKS[when].format(seconds=seconds)
    planes.on(broken, "install", "-D", "/dev/null", DROP_IN)
    planes.on(broken, "sh", "-c", f'printf "%s\\n" "$0" > {DROP_IN}', drop_in)
    planes.on(broken, "systemctl", "daemon-reload")
    with pytest.raises(rollout.PlaybookError) as error:
        run(planes, f"--extra-vars=kube_scheduler_http_timeout_seconds={seconds}")
    assert broken in str(error.value)
    assert schedulers_answer(planes) == ["ok"] * len(PLANES)
    assert [trace for trace in planes.traces() if trace.startswith("gpu")] == []
    reached = PLANES[: PLANES.index(broken)] if when == "apply" else ()
    after = configurations(planes)
    for host in PLANES:
        if host in reached:
            assert f"{seconds}s" in after[host]
        else:
            assert after[host] == before[host]
    planes.on(broken, "rm", "-r", DROP_IN.rpartition("/")[0])
    planes.on(broken, "systemctl", "daemon-reload")


def test_once_none_is_broken_cards_are_given_whoever_leads(planes: Site) -> None:
    run(planes)
    assert all("extenders:" in text for text in configurations(planes).values())
    for name in PLANES:
        planes.kubectl.apply(workloads.pod(f"by-{name}", workloads.SHARE))
        planes.running(f"by-{name}")
        assert planes.annotation(f"by-{name}", "tencent.com/predicate-gpu-idx-0") is not None
        if name != PLANES[-1]:
            let_another_lead(planes)


def test_no_control_plane_keeps_a_trace_of_what_is_uninstalled(planes: Site) -> None:
    for host in PLANES:
        planes.on(host, "systemctl", "start", UNIT)
    planes.kubectl.delete("pods", "--all")
    planes.playbook(
        "uninstall", "-i", str(planes.state / "inventory.yml"),
        "--extra-vars=uninstall_confirmed=true",
    )  # fmt: skip
    assert planes.traces() == []
    assert schedulers_answer(planes) == ["ok"] * len(PLANES)
    assert not any("extenders:" in text for text in configurations(planes).values())
