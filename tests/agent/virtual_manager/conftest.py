import pathlib
import subprocess

import pytest

from tests.agent.host import Host
from tests.agent.virtual_manager.original import Original


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The program with the original's library."""
    target = tmp_path_factory.mktemp("library") / "library"
    source = pathlib.Path(__file__).with_name("library.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", target, source], check=True)
    return target


@pytest.fixture
def original(host: Host) -> Original:
    return Original(host)
