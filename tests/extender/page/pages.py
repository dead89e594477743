"""Shared parts of the page's tests: applications that serve the page, and views of it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flask

from extender.api.app import create_app
from extender.offline import OfflineExtender
from extender.settings import load
from gpustack.model.node import Card, Node
from tests.extender.mini_cluster import listening
from tests.extender.page.browser import Browser

CONTRAST = """
const seen = (element, name) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at)[name];
    if (name === "color" || !/, 0\\)$|transparent/.test(color)) return color;
  }
  return "rgb(255, 255, 255)";
};
const light = (color) => {
  const parts = color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
  const linear = parts.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const texts = "h1, h2, p, a, dt, dd, td, th, li > span, summary span, button, label";
return [...document.querySelectorAll(texts)]
  .filter((element) => element.checkVisibility() && element.textContent.trim())
  .map((element) => {
    const [a, b] = [light(seen(element, "color")), light(seen(element, "backgroundColor"))];
    return [element.textContent.slice(0, 40), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  });
"""


@contextlib.contextmanager
def at(app: flask.Flask) -> Iterator[str]:
    with listening(app) as port:
        yield f"http://127.0.0.1:{port}/"


def of_file(path: str) -> flask.Flask:
    service = OfflineExtender(load(None), path)
    return create_app(service, request_limit_bytes=1 << 20)


def machine(name: str, **card: Any) -> Node:
    values = {"minor": 0, "uuid": f"GPU-{name}", "model": "NVIDIA T4", "memory_bytes": 16 << 30}
    return Node(name=name, cards=(Card(**{**values, **card}),))


def faint(browser: Browser) -> list[bool]:
    """Return for the figures and every section whether they are drawn faintly."""
    looks = browser.script(
        "return [...document.querySelectorAll('#totals, section')].map(each => "
        "[getComputedStyle(each).opacity, getComputedStyle(each).filter])"
    )
    return [float(opacity) < 1 and filter_ == "grayscale(1)" for opacity, filter_ in looks]


def shown(browser: Browser) -> dict[str, str]:
    """Return the shown nodes, each with the words of its state."""
    script = """
    return [...document.querySelectorAll(".machines > li")].map((each) =>
      [".name", ".states"].map((part) => each.querySelector(part).innerText));
    """
    return dict(browser.script(script))
