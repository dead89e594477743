"""Debian's Chromium without a screen, driven as a user of the page."""

import contextlib
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

WAIT_SECONDS = 10
PICTURES = pathlib.Path(__file__).resolve().parents[3] / "build" / "dashboard"
"""The folder of the page's pictures, for people."""


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, *, width: int = 1280, height: int = 1000, dark: bool = False) -> None:
        """Open a page afresh on such a screen."""
        self.driver.get("about:blank")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.problems()
        self.driver.get(url)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text of an element, shown or not."""
        found = self.script("return document.querySelector(arguments[0])?.textContent", selector)
        return str(found)

    def count(self, selector: str) -> int:
        return int(self.script("return document.querySelectorAll(arguments[0]).length", selector))

    def script(self, text: str, *arguments: object) -> Any:
        return self.driver.execute_script(text, *arguments)

    def waits(self, condition: Callable[[], object]) -> None:
        """Wait until the condition of the page holds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.text("body")
            time.sleep(0.02)

    def look_again(self) -> None:
        """Have the page ask at once, as when its tab becomes visible again."""
        self.script("document.dispatchEvent(new Event('visibilitychange'))")

    def problems(self) -> list[str]:
        """The console's complaints since the last call."""
        found: list[dict[str, Any]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [each["message"] for each in found]

    def picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(PICTURES / f"{name}.png"))


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser until the block ends."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    # no sandbox: tests run as root; no shared memory: containers have little of it
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
