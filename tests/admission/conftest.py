"""One control plane for the run, with the policies, and with pods that were there before them."""

import collections.abc
import itertools
import pathlib
from typing import Final

import pytest

from gpustack.adapters.kube import KubeClient
from tests.admission.site import (
    COSTLY,
    ENDLESS,
    PLAIN,
    PODS,
    RENEWAL,
    SPARED,
    USER_KEYS,
    Json,
    Site,
    bind,
    node,
    pod,
    pool_label,
    refusal,
)
from tests.cluster.kubectl import wait_for
from tests.control_plane import identity, plane
from tests.control_plane.fleet import KEYS
from tests.scheduling.cluster import container

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@pytest.fixture(scope="session")
def before(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[tuple[plane.ControlPlane, Json]]:
    """Run a control plane without the policies, and make pods that break them."""
    with plane.start(tmp_path_factory.mktemp("plane")) as control:
        admin = KubeClient.from_kubeconfig(control.admin)
        many = {f"{a}{b}{c}": "" for a, b, c in itertools.product(_LETTERS, repeat=3)}
        old = {
            "bad": pod(
                annotations={key: "x" * (ENDLESS // len(USER_KEYS)) for key in USER_KEYS},
                metadata={"finalizers": ["example.org/any"]},
            ),
            "many": pod(annotations=dict(itertools.islice(many.items(), COSTLY))),
            "plain": pod(PLAIN, annotations=dict(itertools.islice(many.items(), COSTLY))),
        }
        for value in old.values():
            admin.post(PODS, value)
        for name in ("gpu1", "gpu2"):
            admin.post("/api/v1/nodes", node(name, "training"))
        yield control, {name: f"{PODS}/{each['metadata']['name']}" for name, each in old.items()}


@pytest.fixture(scope="session")
def site(before: tuple[plane.ControlPlane, Json], tmp_path_factory: pytest.TempPathFactory) -> Site:
    control, _ = before
    return guarded(control, tmp_path_factory.mktemp("rendered"))


def guarded(control: plane.ControlPlane, folder: pathlib.Path, **variables: object) -> Site:
    """Give a control plane with nodes the role's policies, and return when they hold.

    Args:
        control: where.
        folder: an empty one, for the templates.
        variables: what differs from the role's defaults, and from this suite's.
    """

    def client(user: str, *groups: str) -> KubeClient:
        return KubeClient.from_kubeconfig(control.kubeconfig(user, groups))

    made = Site(
        admin=KubeClient.from_kubeconfig(control.admin),
        extender=KubeClient.from_kubeconfig(identity.extender_kubeconfig(control)),
        node=client("system:node:gpu1", "system:nodes"),
        other=client("system:node:gpu2", "system:nodes"),
        placer=client(SPARED, "system:masters"),
    )
    identity.lay_policies(
        control,
        folder,
        cluster_objects_node_name_accounts=[SPARED],
        **variables,
    )
    asked = made.pod()
    probes = {
        "decisions": lambda: made.denied(pod(annotations={KEYS.predicate_node: "n"})),
        "requests": lambda: made.denied(pod(container("main", 150, 1))),
        "user keys": lambda: made.denied(pod(annotations={KEYS.gpu_topology: ","})),
        "nodes": lambda: made.patched("/api/v1/nodes/gpu1", pool_label("x"), made.node),
        "extender": lambda: bind(made.extender, asked, annotations={"example.org/a": ""}),
        "tokens": lambda: refusal(lambda: made.extender.post(RENEWAL, {"spec": {}})),
    }
    for name, probe in probes.items():
        wait_for(f"the policy of {name} to hold", probe, seconds=30)
    return made
