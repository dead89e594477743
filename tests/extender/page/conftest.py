import shutil
from collections.abc import Iterator

import pytest

from tests.extender.page.browser import Browser, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip(
            "chromium or chromedriver is missing: `make setup` installs them on Debian; elsewhere"
            " install both and put them on the PATH"
        )
    with chromium() as opened:
        yield opened
