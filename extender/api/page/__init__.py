"""The dashboard: one page that asks `/v1` for everything it shows, and nothing of the internet.

Its files lie beside this one. The page may load and call its own origin only, so that even a pod's
name that made it into the markup could do no harm; the script writes text only (`textContent`).
"""

import hashlib
import importlib.resources
from typing import Final

import flask

_SCRIPTS: Final = (
    *("answers", "app", "dom", "figures", "focus", "history"),
    *("machines", "map", "problems", "queue", "routes", "tables", "words"),
)

PATHS: Final = {
    "/": ("index.html", "text/html", "The dashboard"),
    "/page/style.css": ("style.css", "text/css", "How it looks"),
    **{f"/page/{name}.js": (f"{name}.js", "text/javascript", "What it does") for name in _SCRIPTS},
    "/page/icon.svg": ("icon.svg", "image/svg+xml", "Its icon"),
}
"""By path the file, its type, and what it is."""

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def blueprint() -> flask.Blueprint:
    """Return the page's routes; its files are read once, here."""
    routes = flask.Blueprint("page", __name__)
    for path, (name, media, _) in PATHS.items():
        body = importlib.resources.files(__package__).joinpath(name).read_bytes()
        _add(routes, path, name, body, media)
    return routes


def _add(routes: flask.Blueprint, path: str, name: str, body: bytes, media: str) -> None:
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()

    def answer() -> flask.Response:
        response = flask.Response(body, mimetype=media, headers=_HEADERS)
        response.set_etag(digest)
        response.cache_control.no_cache = True  # ask again; what hasn't changed isn't sent again
        response.make_conditional(flask.request)
        return response

    routes.add_url_rule(path, name.replace(".", "_"), answer, methods=["GET"])
