"""A control plane for the whole run, with two GPU nodes and the extender's own identity."""

import pathlib
import re
from collections.abc import Iterator

import pytest

from gpustack.adapters.kube import KubeClient
from tests.control_plane import fleet, identity, plane
from tests.faults.load import NODES
from tests.faults.stage import Stage

_HERE = pathlib.Path(__file__).parent
_FORBIDDEN = re.compile(r'^apiserver_request_total\{.*code="403".*\} (\S+)$', re.MULTILINE)


@pytest.fixture(scope="session")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[plane.ControlPlane]:
    with plane.start(tmp_path_factory.mktemp("plane")) as control:
        fleet.fill(KubeClient.from_kubeconfig(control.admin), range(len(NODES)), pods_each=0)
        first = control.api_server
        yield control
        if control.api_server is not first:
            control.api_server.end()  # one that a test has put in its place


@pytest.fixture(scope="session")
def kubeconfig(control: plane.ControlPlane) -> pathlib.Path:
    return identity.extender_kubeconfig(control)


@pytest.fixture
def client(control: plane.ControlPlane) -> KubeClient:
    return KubeClient.from_kubeconfig(control.admin)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Servers are killed here: sockets to them that were left open are no finding."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning"))


@pytest.fixture
def stage(
    control: plane.ControlPlane,
    client: KubeClient,
    kubeconfig: pathlib.Path,
    tmp_path: pathlib.Path,
) -> Stage:
    return Stage(control=control, client=client, kubeconfig=kubeconfig, folder=tmp_path)


@pytest.fixture(autouse=True)
def nothing_is_forbidden(client: KubeClient, tmp_path: pathlib.Path) -> Iterator[None]:
    """Whatever is asked of the API server in these tests, the role's rights suffice for."""
    yield
    counted = _FORBIDDEN.findall(client.get_raw("/metrics").decode())
    assert not sum(map(float, counted)), "the API server has forbidden something"
    for log in tmp_path.glob("extender-*.log"):
        assert " 403 " not in log.read_text(), log.read_text()
