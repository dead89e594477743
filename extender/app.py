"""The Flask application: a thin layer that turns HTTP into calls and errors into answers.

kube-scheduler drops every body that doesn't come with 200, so what people should read goes into
the result's `Error`. A request that isn't one of the scheduler's gets a 4xx that names the field.
"""

import json
import logging

import flask
import werkzeug.exceptions

from extender.errors import CannotDecide
from extender.service import Extender
from extender.views import blueprint
from gpustack.model.errors import GpustackError
from gpustack.wire import extender_bodies as bodies

logger = logging.getLogger(__name__)


def create_app(service: Extender, *, request_limit_bytes: int) -> flask.Flask:
    """Return the application that answers for ``service``."""
    app = flask.Flask("extender", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = request_limit_bytes
    app.register_blueprint(blueprint(service))
    app.register_error_handler(bodies.BadBody, _bad_body)
    app.register_error_handler(GpustackError, _known)
    app.register_error_handler(werkzeug.exceptions.HTTPException, _http)
    app.register_error_handler(Exception, _unknown)

    def count(error: CannotDecide) -> flask.Response:
        service.metrics.count(error.code)
        return _known(error)

    app.register_error_handler(CannotDecide, count)
    return app


def _json(body: bytes, status: int) -> flask.Response:
    return flask.Response(body, status=status, mimetype="application/json")


def _error(text: str, status: int) -> flask.Response:
    return _json(json.dumps({"Error": text}).encode(), status)


def _bad_body(error: bodies.BadBody) -> flask.Response:
    return _error(str(error), 400)


def _known(error: GpustackError) -> flask.Response:
    logger.warning("no answer path=%s error=%s", flask.request.path, error)
    return _json(bodies.encode_filter_error(f"gpustack: {error}"), 200)


def _http(error: werkzeug.exceptions.HTTPException) -> flask.Response:
    return _error(error.description or error.name, error.code or 500)


def _unknown(error: Exception) -> flask.Response:
    logger.error("request failed path=%s", flask.request.path, exc_info=error)
    return _error("internal error; the log of gpustack-extender says more", 500)
