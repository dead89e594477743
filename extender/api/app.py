"""The Flask application: a thin layer that turns HTTP into calls and errors into answers.

kube-scheduler drops every body that doesn't come with 200, so what people should read goes into
the result's `Error`. A request that isn't one of the scheduler's gets a 4xx that names the field.
"""

import functools
import json
import logging
import re
from typing import Final

import flask
import werkzeug.exceptions

import gpustack
from extender.api import page, scheduler_api, v1
from extender.extender_base import ExtenderBase
from extender.http import heads
from extender.http.interface import CONNECTION
from gpustack.adapters.web import tls
from gpustack.adapters.web.rate_limited_log import RateLimitedLog
from gpustack.wire.host_header import AllowedHosts

logger = logging.getLogger(__name__)

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")


def create_app(
    extender: ExtenderBase,
    *,
    request_limit_bytes: int,
    client_name: str = "",
    hosts: AllowedHosts | None = None,
) -> flask.Flask:
    """Return the application that answers for ``extender``.

    Args:
        extender: what decides.
        request_limit_bytes: largest body.
        client_name: common name of the only client whose requests decide; empty without TLS.
        hosts: the names that requests may use; those of loopback unless given.
    """
    app = flask.Flask("extender", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = request_limit_bytes
    app.before_request(functools.partial(_check_head, hosts or AllowedHosts()))
    if client_name:
        app.before_request(functools.partial(_check_client, client_name, RateLimitedLog()))
    app.before_request(_check_body)
    app.register_blueprint(scheduler_api.blueprint(scheduler_api.SchedulerApi(extender)))
    app.register_blueprint(v1.blueprint(extender))
    app.register_blueprint(page.blueprint())
    _add_texts(app, extender)
    app.register_error_handler(werkzeug.exceptions.HTTPException, _http)
    app.register_error_handler(Exception, _unknown)
    return app


def _add_texts(app: flask.Flask, extender: ExtenderBase) -> None:
    """Add the paths that are answered in plain text."""

    @app.get("/version")
    def version() -> flask.Response:
        return _text(gpustack.__version__)

    @app.get("/healthz")
    def healthz() -> flask.Response:
        return _text("ok")

    @app.get("/readyz")
    def readyz() -> flask.Response:
        return _text(extender.unready, 503) if extender.unready else _text("ok")

    @app.get("/metrics")
    def metrics() -> flask.Response:
        text, content_type = extender.metrics.render(flask.request.headers.get("Accept", ""))
        return flask.Response(text, content_type=content_type)


def _text(text: str, status: int = 200) -> flask.Response:
    return flask.Response(f"{text}\n", status=status, mimetype="text/plain")


def _check_head(ours: AllowedHosts) -> flask.Response | None:
    """Refuse what no caller of ours would ask, whatever the path."""
    request, environ = flask.request, flask.request.environ
    # A target with a host of its own counts before `Host` (RFC 9112, 3.2.2); both must be ours.
    target = _ABSOLUTE.match(environ.get("RAW_URI", ""))
    foreign = ours.refusal((target[1],)) if target else None
    refused = foreign or heads.refusal(
        ours,
        method=request.method,
        path=request.path,
        host=environ.get("HTTP_HOST"),
        media=environ.get("CONTENT_TYPE") or "",
        origin=environ.get("HTTP_ORIGIN"),
        is_1_0=environ.get("SERVER_PROTOCOL") == "HTTP/1.0",
    )
    return _error(refused.text, refused.status) if refused is not None else None


def _check_client(client_name: str, seldom: RateLimitedLog) -> flask.Response | None:
    """Let only the scheduler decide; every client may read."""
    if not flask.request.path.startswith(heads.VERBS):
        return None
    name = tls.common_name(flask.request.environ.get(CONNECTION))
    if name == client_name:
        return None
    text = (
        "decisions need TLS: ask https, with kube-scheduler's client certificate"
        if name is None
        else f"the client's certificate names {name!r}; tls.client_name is {client_name!r}"
    )
    if seldom.may_say(text):
        logger.warning("request refused client=%s error=%s", flask.request.remote_addr, text)
    return _error(text, 403)


def _check_body() -> flask.Response | None:
    """Refuse by its head a body that the server has dropped, or has not waited for."""
    request = flask.request
    limit = request.max_content_length or 0
    if request.headers.get("Transfer-Encoding"):
        return _error("Transfer-Encoding: send the body with a Content-Length", 411)
    if (request.content_length or 0) > limit:
        refused = heads.too_large(limit)
        return _error(refused.text, refused.status)
    return None


def _error(text: str, status: int) -> flask.Response:
    body = json.dumps({"Error": text})
    return flask.Response(body, status=status, mimetype="application/json")


def _http(error: werkzeug.exceptions.HTTPException) -> flask.Response:
    return _error(error.description or error.name, error.code or 500)


def _unknown(error: Exception) -> flask.Response:
    logger.error("request failed path=%s", flask.request.path, exc_info=error)
    return _error("internal error; the log of gpustack-extender says more", 500)
