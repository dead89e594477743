"""What the render tests share."""

import pathlib

import pytest

from tests.ansible import rendering


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with every unit and configuration, rendered with the roles' defaults."""
    return rendering.render(tmp_path_factory.mktemp("rendered"))
