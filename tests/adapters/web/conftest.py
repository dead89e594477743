"""What a server with TLS needs."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.adapters.web.reading import Site
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    with FakeKubeApi() as api:
        yield Site(tmp_path, api)
