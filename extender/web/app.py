"""The Flask application: a thin layer that turns HTTP into calls and errors into answers.

kube-scheduler drops every body that doesn't come with 200, so what people should read goes into
the result's `Error`. A request that isn't one of the scheduler's gets a 4xx that names the field.
"""

import functools
import json
import logging
from typing import Final

import flask
import werkzeug.exceptions

from extender import caller, tls
from extender.web.served import Served
from extender.web.views import blueprint

logger = logging.getLogger(__name__)


_DECISIONS: Final = "/scheduler/"


def create_app(service: Served, *, request_limit_bytes: int, client_name: str = "") -> flask.Flask:
    """Return the application that answers for ``service``.

    Args:
        service: what decides.
        request_limit_bytes: largest body.
        client_name: common name of the only client whose requests decide; empty without TLS.
    """
    app = flask.Flask("extender", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = request_limit_bytes
    app.before_request(_know_caller)
    app.before_request(_check_body)
    if client_name:
        app.before_request(functools.partial(_check_client, client_name))
    app.register_blueprint(blueprint(service))
    app.register_error_handler(werkzeug.exceptions.HTTPException, _http)
    app.register_error_handler(Exception, _unknown)
    return app


def _know_caller() -> None:
    environ = flask.request.environ
    # the first is the product's server, the second the tests'
    caller.is_on(environ.get("gunicorn.socket") or environ.get("werkzeug.socket"))


def _check_body() -> flask.Response | None:
    """Refuse by its head a body that the server has dropped, or has not waited for."""
    request = flask.request
    limit = request.max_content_length or 0
    if request.headers.get("Transfer-Encoding"):
        return _error("Transfer-Encoding: send the body with a Content-Length", 411)
    if (request.content_length or 0) > limit:
        text = f"the body has {request.content_length} bytes; request_limit_bytes allows {limit}"
        return _error(text, 413)
    return None


def _check_client(client_name: str) -> flask.Response | None:
    """Let only the scheduler decide; whoever has reached us may read."""
    if not flask.request.path.startswith(_DECISIONS):
        return None
    name = tls.common_name(flask.request.environ.get("gunicorn.socket"))
    if name == client_name:
        return None
    text = (
        "decisions need TLS: ask https, with kube-scheduler's client certificate"
        if name is None
        else f"the client's certificate names {name!r}; tls.client_name is {client_name!r}"
    )
    logger.warning("request refused client=%s error=%s", flask.request.remote_addr, text)
    return _error(text, 403)


def _error(text: str, status: int) -> flask.Response:
    body = json.dumps({"Error": text})
    return flask.Response(body, status=status, mimetype="application/json")


def _http(error: werkzeug.exceptions.HTTPException) -> flask.Response:
    return _error(error.description or error.name, error.code or 500)


def _unknown(error: Exception) -> flask.Response:
    logger.error("request failed path=%s", flask.request.path, exc_info=error)
    return _error("internal error; the log of gpustack-extender says more", 500)
