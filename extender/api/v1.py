"""`/v1`: the cluster, one pod's answer, the last decisions, for the page and for programs.

Every answer follows a schema that `/v1/openapi.json` publishes. To explain a pod is a search that
may take a second on a large cluster, so one runs at a time, and leaves a thread to other requests.
One that takes far longer, of a pod that is made so, is given up.
"""

import hashlib
import threading
from typing import Any, Final

import flask
import msgspec

from extender.api import openapi, serializers
from extender.cache.pods import PodState
from extender.cache.snapshot import ClusterSnapshot, SearchTakesTooLong, advise, standing
from extender.extender_base import ExtenderBase
from extender.observability.history import EVERY_SECONDS
from gpustack.model.codes import MEANINGS
from gpustack.model.explain.explanation import Explanation
from gpustack.wire import explanations, violations

_RETRY_SECONDS: Final = 1
_LONGEST_SECONDS: Final = 20.0
_NOTHING_ASKED: Final = Explanation(answers={})  # of a pod that waits for nothing of ours


def blueprint(extender: ExtenderBase) -> flask.Blueprint:
    """Return the routes below `/v1/`."""
    routes = flask.Blueprint("v1", __name__, url_prefix="/v1")
    values = serializers.ClusterValues()
    free = threading.Lock()

    @routes.get("/cluster")
    def cluster() -> flask.Response:
        snapshot = extender.snapshotter.take()
        value = values.make(
            snapshot,
            extender.decisions.refusals(pod.uid for pod in snapshot.waiting),
            extender.card_utilisation,
            unready=extender.unready,
            quota_problem=extender.quotas.problem,
        )
        return _answer(value)

    @routes.get("/decisions")
    def decisions() -> flask.Response:
        return _answer(serializers.decisions(extender.decisions.last))

    @routes.get("/history")
    def history() -> flask.Response:
        return _answer({"every_seconds": EVERY_SECONDS, "points": extender.history.points})

    @routes.get("/reasons")
    def reasons() -> flask.Response:
        return _answer(MEANINGS)

    @routes.get("/explain/<namespace>/<pod>")
    def explain(namespace: str, pod: str) -> flask.Response:
        if not free.acquire(blocking=False):
            busy = _error("Busy: a pod is being explained; ask again in a second", 503)
            busy.headers["Retry-After"] = str(_RETRY_SECONDS)
            return busy
        try:
            snapshot = extender.snapshotter.take()
            known = snapshot.named(namespace, pod)
            if known is not None:
                return _answer(explanation(extender, snapshot, known))
            text = f"no pod {namespace}/{pod} is known that asks for a GPU and has not ended"
            return _error(f"PodUnknown: {text}", 404)
        except SearchTakesTooLong:
            text = f"pod {namespace}/{pod} is not explained in {_LONGEST_SECONDS:g} s"
            return _error(f"TakesTooLong: {text}; gpustack explain takes its time", 503)
        finally:
            free.release()

    @routes.get("/openapi.json")
    def description() -> flask.Response:
        return _answer(openapi.description())

    return routes


def explanation(extender: ExtenderBase, snapshot: ClusterSnapshot, pod: PodState) -> dict[str, Any]:
    """Return one pod's answer, in the form of `gpustack explain POD -o json`."""
    tenant = snapshot.tenant(pod.uid)
    if tenant is not None:
        return explanations.running(
            pod.full_name,
            snapshot.cluster,
            tenant.placement,
            standing(snapshot, pod, tenant, seconds=_LONGEST_SECONDS),
            _notes(pod, snapshot),
        )
    if pod.node:
        notes = [*_notes(pod, snapshot), explanations.undecided(pod.node)]
        return explanations.waiting(pod.full_name, snapshot.cluster, _NOTHING_ASKED, notes)
    snapshot = extender.snapshotter.take(pod)
    found = advise(snapshot, pod, seconds=_LONGEST_SECONDS)
    notes = [*_notes(pod, snapshot), *([explanations.ROOM] if found.fits else [])]
    return explanations.waiting(pod.full_name, snapshot.cluster, found, notes)


def _notes(pod: PodState, snapshot: ClusterSnapshot) -> list[str]:
    names = {each.name for each in pod.request.containers} if pod.request is not None else set()
    said = violations.of_pod(snapshot.violations(pod.node), pod.uid, names)
    notes = [explanations.violation(each) for each in said]
    if pod.problem is not None:
        notes.append(pod.problem.message)
    if pod.ignored is not None:
        notes.append(explanations.ignored(pod.ignored.message))
    if pod.deletion:
        notes.append("it is being deleted")
    if any(each.uid == pod.uid for each in snapshot.cluster.claims):
        notes.append(explanations.CLAIMS)
    if pod.nominated and not pod.node:
        notes.append(f"the scheduler makes room for it on node {pod.nominated}")
    return notes


def _answer(value: object) -> flask.Response:
    """Return JSON; a client that has the same already gets 304 and no body."""
    body = msgspec.json.encode(value)
    tag = hashlib.blake2b(body, digest_size=16).hexdigest()
    response = _json(body, 304 if flask.request.if_none_match.contains_weak(tag) else 200)
    response.set_etag(tag)
    response.cache_control.no_cache = True
    return response


def _error(text: str, status: int) -> flask.Response:
    return _json(msgspec.json.encode({"Error": text}), status)


def _json(body: bytes, status: int) -> flask.Response:
    return flask.Response(body, status=status, mimetype="application/json")
