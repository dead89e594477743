"""The paths that are answered, each in a few lines."""

import flask

import gpustack
from extender.api import page, scheduler_api, v1
from extender.extender_base import ExtenderBase


def blueprint(extender: ExtenderBase) -> flask.Blueprint:
    """Return the routes that answer for ``extender``."""
    routes = flask.Blueprint("extender", __name__)

    for each in (
        scheduler_api.blueprint(scheduler_api.SchedulerApi(extender)),
        v1.blueprint(extender),
        page.blueprint(),
    ):
        routes.register_blueprint(each)

    @routes.get("/version")
    def version() -> flask.Response:
        return _text(gpustack.__version__)

    @routes.get("/healthz")
    def healthz() -> flask.Response:
        return _text("ok")

    @routes.get("/readyz")
    def readyz() -> flask.Response:
        return _text(extender.unready, 503) if extender.unready else _text("ok")

    @routes.get("/metrics")
    def metrics() -> flask.Response:
        text, content_type = extender.metrics.render(flask.request.headers.get("Accept", ""))
        return flask.Response(text, content_type=content_type)

    return routes


def _text(text: str, status: int = 200) -> flask.Response:
    return flask.Response(f"{text}\n", status=status, mimetype="text/plain")
