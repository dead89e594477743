import pathlib
from collections.abc import Iterator

import pytest

from tests.agent.host import Host


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Iterator[Host]:
    with Host(tmp_path) as host:
        yield host
