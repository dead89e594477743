"""Fixtures that the tests of roles share."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.ansible import rendering
from tests.ansible.kube_scheduler.scheduler_host import FOUND, MANIFEST, Host, Make


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with every unit and configuration, rendered with the roles' defaults."""
    return rendering.render(tmp_path_factory.mktemp("rendered"))


@pytest.fixture
def make(tmp_path: pathlib.Path) -> Iterator[Make]:
    """Make a host of the kind `unit` or `static_pod`, with a running scheduler."""
    made: list[Host] = []

    def run(kind: str, *, version: str = "v1.34.4") -> Host:
        host = Host(tmp_path, version=version)
        made.append(host)
        if kind == "unit":
            host.config.write_text(FOUND)
            host.start_unit()
        else:
            host.manifest.write_text(MANIFEST)
            host.start_kubelet()
        return host

    yield run
    for host in made:
        host.stop()
