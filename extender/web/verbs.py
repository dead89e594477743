"""The scheduler's calls: a body in, the verb's answer out, timed.

An error becomes the verb's own result where that has a place for one (kube-scheduler drops every
body that doesn't come with 200): `Error` of a filter's and of a binding's result. The result of
preempt has none, so an error is a 503 there, and the scheduler ends no pod.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import flask

from extender.errors import CannotDecide
from extender.web.served import Served
from gpustack.wire import extender_bodies as bodies

logger = logging.getLogger(__name__)

_Args = TypeVar("_Args", bodies.FilterArgs, bodies.BindingArgs, bodies.PreemptionArgs)


def blueprint(service: Served) -> flask.Blueprint:
    """Return the routes below `/scheduler/`."""
    routes = flask.Blueprint("scheduler", __name__, url_prefix="/scheduler")

    def verb(
        path: str,
        name: str,
        decode: Callable[[bytes], _Args],
        answer: Callable[[_Args], bytes],
        failed: Callable[[str], flask.Response],
    ) -> None:
        def call() -> flask.Response:
            with service.metrics.verb_seconds.labels(name).time(), service.decisions.call(name):
                args = decode(_body())
                try:
                    if service.unready:
                        raise CannotDecide("NotReady", service.unready)
                    return _json(answer(args))
                except CannotDecide as error:
                    service.metrics.count(error.code)
                    service.decisions.fail(args.pod, error)
                    logger.warning("no answer verb=%s error=%s", name, error)
                    return failed(f"gpustack: {error}")

        routes.add_url_rule(path, path.strip("/"), call, methods=["POST"])

    nodes = bodies.decode_filter_args
    verb("/predicates", "predicates", nodes, service.predicates, _filter_error)
    verb("/filter", "filter", nodes, service.filter, _filter_error)
    verb("/prioritize", "prioritize", nodes, service.prioritize, _unavailable)
    verb("/priorities", "prioritize", nodes, service.prioritize, _unavailable)  # the original's
    verb("/bind", "bind", bodies.decode_binding_args, service.bind, _binding_error)
    verb("/preempt", "preempt", bodies.decode_preemption_args, service.preempt, _unavailable)
    return routes


def _body() -> bytes:
    """Return the request's body, whose length the application has looked at.

    Not by ``get_data``, which copies 12 MB of nodes piece by piece.
    """
    body: bytes = flask.request.environ["wsgi.input"].read(flask.request.content_length or 0)
    return body


def _json(body: bytes, status: int = 200) -> flask.Response:
    return flask.Response(body, status=status, mimetype="application/json")


def _filter_error(text: str) -> flask.Response:
    return _json(bodies.encode_filter_error(text))


def _binding_error(text: str) -> flask.Response:
    return _json(bodies.encode_binding_result(text))


def _unavailable(text: str) -> flask.Response:
    # The only field that both results lack: their readers pass over it.
    return _json(bodies.encode_binding_result(text), 503)
