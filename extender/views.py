"""The paths that are answered, each in a few lines."""

import flask
import prometheus_client

import gpustack
from extender.errors import CannotDecide
from extender.service import Extender
from gpustack.wire import extender_bodies as bodies


def blueprint(service: Extender) -> flask.Blueprint:
    """Return the routes that answer for ``service``."""
    routes = flask.Blueprint("extender", __name__)

    @routes.post("/scheduler/predicates")
    def predicates() -> flask.Response:
        with service.metrics.verb_seconds.labels("predicates").time():
            args = bodies.decode_filter_args(flask.request.get_data(cache=False))
            if service.unready:
                raise CannotDecide("NotReady", service.unready)
            result = service.predicates(args)
        return flask.Response(result, mimetype="application/json")

    @routes.get("/version")
    def version() -> flask.Response:
        return _text(gpustack.__version__)

    @routes.get("/healthz")
    def healthz() -> flask.Response:
        return _text("ok")

    @routes.get("/readyz")
    def readyz() -> flask.Response:
        return _text(service.unready, 503) if service.unready else _text("ok")

    @routes.get("/metrics")
    def metrics() -> flask.Response:
        return flask.Response(
            service.metrics.render(), content_type=prometheus_client.CONTENT_TYPE_LATEST
        )

    return routes


def _text(text: str, status: int = 200) -> flask.Response:
    return flask.Response(f"{text}\n", status=status, mimetype="text/plain")
