"""What every test shares: `--profile`, how hard the properties are tried (`tests/profiles.py`)."""

import pytest

from tests import profiles

# Before hypothesis reads its own options, which may choose otherwise.
profiles.register()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--profile", metavar="NAME", help="properties: ci (default), dev, nightly")


def pytest_configure(config: pytest.Config) -> None:
    name: str | None = config.getoption("--profile")
    if name is not None:
        profiles.choose(name)
