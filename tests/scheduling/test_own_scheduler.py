"""Two schedulers of our own, of which one leads, beside the cluster's own, which asks nobody.

Account, rights and configuration are those of the roles; the programs are real.
"""

import collections.abc
import contextlib
import json
import shutil
from typing import Any

import pytest

from tests.ansible import rendering
from tests.cluster.kubectl import wait_for
from tests.control_plane import extending, identity
from tests.control_plane.processes import Process, free_port, running
from tests.scheduling.cluster import Cluster, container
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed

OURS = {"schedulerName": "gpustack"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LED = b"uccessfully acquired lease"  # 1.37 begins it with a capital
TAKEN_OVER_SECONDS = 40.0  # the lease lasts 15


@pytest.fixture(scope="module")
def schedulers(
    whole_cluster: Cluster,
    extender: extending.RunningExtender,
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[list[Process]]:
    """Run two with the role's configuration, the first of which leads."""
    folder = tmp_path_factory.mktemp("own")
    assert extender.tls
    for name, file in (
        ("ca.crt", extender.tls.authority),
        ("client.crt", extender.tls.certificate),
        ("client.key", extender.tls.key),
    ):
        shutil.copy(file, folder / name)
    account = json.loads(identity.scheduler_kubeconfig(whole_cluster.control).read_text())
    # as the role lays it: in a file that is read again
    (folder / "token").write_text(account["users"][0]["user"]["token"])
    account["users"][0]["user"] = {"tokenFile": str(folder / "token")}
    (folder / "kubeconfig").write_text(json.dumps(account))
    (folder / "rendered").mkdir()
    rendered = rendering.render(
        folder / "rendered",
        kube_scheduler_manager="own",
        kube_scheduler_certificates=str(folder),
        kube_scheduler_extender_url=f"https://127.0.0.1:{extender.port}/scheduler",
        __kube_scheduler_own_folder=str(folder),
    )
    with contextlib.ExitStack() as stack:
        made = [
            stack.enter_context(
                running(
                    [
                        kubernetes.CURRENT.bin / "kube-scheduler",
                        f"--config={rendered / 'own_configuration.yaml'}",
                        f"--authentication-kubeconfig={folder / 'kubeconfig'}",
                        f"--authorization-kubeconfig={folder / 'kubeconfig'}",
                        "--bind-address=127.0.0.1",
                        f"--secure-port={free_port()}",
                    ],
                    folder / f"{name}.log",
                )
            )
            for name in ("first", "second")
        ]
        wait_for("one of them to lead", lambda: leads(made), seconds=60)
        yield made
    forbidden = [
        line for each in made for line in each.log.read_text().splitlines() if "forbidden" in line
    ]
    assert forbidden == []


def leads(schedulers: list[Process]) -> list[Process]:
    """Return the schedulers that run and have led."""
    return [each for each in schedulers if each.running and LED in each.log.read_bytes()]


@pytest.fixture(scope="module")
def scheduled(
    whole_cluster: Cluster, schedulers: list[Process]
) -> collections.abc.Iterator[Cluster]:
    """Run the cluster's own scheduler, too, as its maker set it up."""
    with whole_cluster.control.scheduler({}, "theirs"):
        yield whole_cluster


def lease(cluster: Cluster, name: str) -> Any:
    return cluster.client.get(f"{LEASES}/{name}")["spec"]["holderIdentity"]


def test_pods_with_its_name_get_cards_and_others_come_as_before(cluster: Cluster) -> None:
    cluster.create("share", container("main", 50, 32), **OURS)
    assert cluster.bound("share") == ("small", {"idx-0": "0"})
    cluster.create("cards", container("main", 200), **OURS)
    assert len(cluster.bound("cards")[1]["idx-0"].split(",")) == 2
    cluster.create("theirs", {"name": "main", "image": "none"})
    assert cluster.bound("theirs")[1] == {}
    assert cluster.pod("theirs")["spec"]["schedulerName"] == "default-scheduler"
    assert lease(cluster, "gpustack-scheduler")


def test_pods_that_find_no_card_wait_with_the_extenders_reason(cluster: Cluster) -> None:
    cluster.create("much", container("main", 1600), **OURS)
    assert "nodes are available" in cluster.refused("much")


def test_the_other_takes_over_when_the_leader_is_killed(
    cluster: Cluster, schedulers: list[Process]
) -> None:
    [leader] = leads(schedulers)
    held = lease(cluster, "gpustack-scheduler")
    leader.kill()
    wait_for("the other to lead", lambda: leads(schedulers), seconds=TAKEN_OVER_SECONDS)
    assert lease(cluster, "gpustack-scheduler") != held
    cluster.create("after", container("main", 50, 32), **OURS)
    assert cluster.bound("after")[1].keys() == {"idx-0"}
