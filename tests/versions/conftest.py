"""Each release is made once, and each test has a cluster of its own."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.hook.container import SIMGPU, make
from tests.versions.cluster import Cluster
from tests.versions.releases import Releases


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return Releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    make(SIMGPU)
    with Cluster(tmp_path) as cluster:
        yield cluster
