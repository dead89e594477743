import pytest

from tests.extender.stateful.machine import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Node n1 has an A100, n2 an A100 and an A40; two instances know both nodes."""
    return Cluster()
