"""The scheduler's calls: a body in, the verb's answer out, timed.

An error becomes the verb's own result where that has a place for one (kube-scheduler drops every
body that doesn't come with 200): `Error` of a filter's and of a binding's result. The result of
preempt has none, so an error is a 503 there, and the scheduler ends no pod.

A bind that is refused again within a second is answered at the end of that second.
"""

import functools
import json
import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

import flask

from extender.errors import CannotDecide
from extender.extender_base import ExtenderBase
from extender.http import disconnect, heads
from extender.http.interface import CONNECTION, HOLD_SECONDS, Reply
from extender.verbs.bind_backoff import BindBackoff
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import Outcome
from gpustack.model.errors import GpustackError
from gpustack.wire import extender_v1 as bodies

logger = logging.getLogger(__name__)

_PREFIX: Final = heads.VERBS.rstrip("/")
_Args = TypeVar("_Args", bodies.FilterArgs, bodies.BindingArgs, bodies.PreemptionArgs)

_Call = Callable[[bytes, Callable[[], bool]], Reply]
"""A call: its body, and what tells whether the caller has closed its connection."""


class SchedulerApi:
    """Answers the scheduler's calls, whichever way they have come.

    Attributes:
        paths: the paths that are answered.
    """

    def __init__(self, extender: ExtenderBase) -> None:
        self._extender = extender
        nodes, victims = bodies.decode_filter_args, bodies.decode_preemption_args
        binding, backoff = bodies.decode_binding_args, extender.bind_backoff
        filtered, bound = bodies.encode_filter_error, bodies.encode_binding_result
        # With a 503 goes the only field that the verb's result lacks: its reader passes over it.
        prioritize = self._call("prioritize", nodes, extender.prioritize, bound, status=503)
        self._calls: dict[str, _Call] = {
            "/predicates": self._call("predicates", nodes, extender.predicates, filtered),
            "/filter": self._call("filter", nodes, extender.filter, filtered),
            "/prioritize": prioritize,
            "/priorities": prioritize,  # the original's
            "/bind": self._call("bind", binding, extender.bind, bound, backoff=backoff),
            "/preempt": self._call("preempt", victims, extender.preempt, bound, status=503),
        }
        self.paths: Final = frozenset(_PREFIX + path for path in self._calls)

    def answer(
        self, path: str, body: bytes, *, disconnected: Callable[[], bool] = lambda: False
    ) -> Reply:
        """Answer the call of one of ``paths``; what goes wrong is in the answer.

        ``disconnected`` tells whether the caller has closed its connection.

        Raises:
            KeyError: it isn't one of ``paths``.
        """
        call = self._calls[path.removeprefix(_PREFIX)]
        try:
            return call(body, disconnected)
        except bodies.BadBody as error:
            return _error(str(error), 400)
        except GpustackError as error:
            logger.warning("no answer path=%s error=%s", path, error)
            return Reply(bodies.encode_filter_error(f"gpustack: {error}"))
        except Exception:
            # The last line of this request: others are answered, and the log says what it was.
            logger.exception("request failed path=%s", path)
            return _error("internal error; the log of gpustack-extender says more", 500)

    def _call(
        self,
        name: str,
        decode: Callable[[bytes], _Args],
        verb: Callable[[_Args, Deadline], Outcome],
        failed: Callable[[str], bytes],
        *,
        backoff: BindBackoff | None = None,
        status: int = 200,
    ) -> _Call:
        """Return a verb's call; an error becomes ``failed``'s body with this status."""
        extender = self._extender
        seconds = extender.metrics.verb_seconds.labels(name)

        def call(body: bytes, disconnected: Callable[[], bool]) -> Reply:
            began = time.monotonic()
            with seconds.time():
                args = decode(body)
                deadline = extender.deadline(disconnected)
                try:
                    if extender.unready:
                        raise CannotDecide("NotReady", extender.unready)
                    outcome = verb(args, deadline)
                    reply = Reply(outcome.answer)
                except CannotDecide as error:
                    hold = backoff.refuse(args.pod.uid, deadline.end) if backoff else 0.0
                    reply = Reply(failed(f"gpustack: {error}"), status, hold)
                    outcome = Outcome(
                        pod=args.pod, code=error.code, answer=reply.body, message=str(error)
                    )
                extender.recorder.record(name, outcome, time.monotonic() - began)
                return reply

        return call


def blueprint(calls: SchedulerApi) -> flask.Blueprint:
    """Return the routes of the calls."""
    routes = flask.Blueprint("scheduler", __name__)

    def answer() -> flask.Response:
        gone = functools.partial(disconnect.is_closed, flask.request.environ.get(CONNECTION))
        # Not by `get_data`, which copies 12 MB of nodes piece by piece. The application has looked
        # at the length.
        body = flask.request.environ["wsgi.input"].read(flask.request.content_length or 0)
        reply = calls.answer(flask.request.path, body, disconnected=gone)
        flask.request.environ[HOLD_SECONDS] = reply.hold_seconds
        return flask.Response(reply.body, status=reply.status, mimetype="application/json")

    for path in calls.paths:
        routes.add_url_rule(path, path.strip("/"), answer, methods=["POST"])
    return routes


def _error(text: str, status: int) -> Reply:
    return Reply(json.dumps({"Error": text}).encode(), status)
