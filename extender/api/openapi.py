"""The description of every path (OpenAPI 3.1), made of the schemas that answers are tested by.

One table here, one entry a path; a test compares it with the application's own routes.
"""

import functools
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import gpustack
from extender.api import page
from gpustack.wire import schemas

VERSION: Final = "3.1.0"
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_WITH_ERROR: Final = ("ExtenderFilterResult", "ExtenderBindingResult")  # these have a field for it
_DOCUMENTS: Final = {
    "Cluster": "v1-cluster",
    "Decisions": "v1-decisions",
    "History": "v1-history",
    "Reasons": "v1-reasons",
    "Explanation": "explain",
}
_REFERENCE: Final = re.compile(r'"#/\$defs/(\w+)"')


@functools.cache
def description() -> Mapping[str, Any]:
    """Return the description; it is shared and must not be changed."""
    components = _components("scheduler")
    for name, document in _DOCUMENTS.items():
        components |= _components(document, name)
    files = {path: _get(text, media=media) for path, (_, media, text) in page.PATHS.items()}
    return {
        "openapi": VERSION,
        "info": {
            "title": "gpustack-extender",
            "version": gpustack.__version__,
            "description": "Which GPUs a pod gets: kube-scheduler's calls, and the cluster for "
            "people. With TLS, only kube-scheduler's certificate may call below /scheduler/.",
        },
        "paths": {**_verbs(), **_questions(), **_plain(), **files},
        "components": {"schemas": components},
    }


def _verbs() -> dict[str, Any]:
    nodes, fitting, scores = "ExtenderArgs", "ExtenderFilterResult", "HostPriorityList"
    ranked = "Scores, more for better nodes; of more than a hundred, the worst aren't named"
    return {
        "/scheduler/predicates": _verb("One node, reserved", nodes, fitting),
        "/scheduler/filter": _verb("Every node that fits", nodes, fitting),
        "/scheduler/prioritize": _verb(ranked, nodes, scores),
        "/scheduler/priorities": _verb("The same, the original's name", nodes, scores),
        "/scheduler/bind": _verb(
            "Choose cards and bind", "ExtenderBindingArgs", "ExtenderBindingResult"
        ),
        "/scheduler/preempt": _verb(
            "Which pods must end", "ExtenderPreemptionArgs", "ExtenderPreemptionResult"
        ),
    }


def _verb(summary: str, args: str, result: str) -> dict[str, Any]:
    answers = {
        "200": _answer(summary, result),
        "400": _answer("A body that misses a field; names it", "Error"),
        "403": _answer("Not kube-scheduler's certificate, or a web page's request", "Error"),
        "411": _answer("A body without its length", "Error"),
        "413": _answer("A body that is too large", "Error"),
        "415": _answer("A body of another type than JSON", "Error"),
        "421": _MISDIRECTED,
    }
    if result not in _WITH_ERROR:
        answers["503"] = _answer("No answer now", "ExtenderBindingResult")
    body = {"required": True, "content": {_JSON: {"schema": _ref(args)}}}
    return {"post": {"summary": summary, "requestBody": body, "responses": answers}}


def _questions() -> dict[str, Any]:
    names = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in ("namespace", "pod")
    ]
    explain = _get("Why a pod waits and what would let it run, or why it is where it is")
    explain["get"]["parameters"] = names
    explain["get"]["responses"] |= {
        "200": _answer("The answer of `gpustack explain POD -o json`", "Explanation"),
        "404": _answer("No such pod, or it asks for no GPU", "Error"),
        "503": _answer("Another one is being explained, or this one takes too long", "Error"),
    }
    return {
        "/v1/cluster": _get("Nodes, cards, tenants, waiting pods, quotas", "Cluster"),
        "/v1/decisions": _get("The last decisions", "Decisions"),
        "/v1/history": _get("A day of the cluster, a point a minute", "History"),
        "/v1/reasons": _get("What each reason means, and what to do", "Reasons"),
        "/v1/explain/{namespace}/{pod}": explain,
        "/v1/openapi.json": _get("This description", media=_JSON),
    }


def _plain() -> dict[str, Any]:
    ready = _get("Whether decisions can be made", media=_TEXT)
    ready["get"]["responses"]["503"] = _content("Why not", _TEXT)
    return {
        "/version": _get("The version", media=_TEXT),
        "/healthz": _get("Whether the process answers", media=_TEXT),
        "/readyz": ready,
        "/metrics": _get("What Prometheus reads", media=_TEXT),
    }


def _get(summary: str, schema: str = "", *, media: str = "") -> dict[str, Any]:
    answer = _answer(summary, schema) if schema else _content(summary, media)
    return {"get": {"summary": summary, "responses": {"200": answer, "421": _MISDIRECTED}}}


def _answer(text: str, schema: str) -> dict[str, Any]:
    return {"description": text, "content": {_JSON: {"schema": _ref(schema)}}}


def _content(text: str, media: str) -> dict[str, Any]:
    return {"description": text, "content": {media: {}}} if media else {"description": text}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


_MISDIRECTED: Final = _answer("Asked under a host that is none of ours", "Error")


def _components(document: str, name: str = "") -> dict[str, Any]:
    """Return a document's definitions; with a ``name``, under it, and the document itself there."""

    def named(part: str) -> str:
        return name + part.capitalize() if name else part

    text = _REFERENCE.sub(
        lambda found: f'"#/components/schemas/{named(found[1])}"',
        json.dumps(schemas.load(document)),
    )
    schema = json.loads(text)
    found = {named(part): each for part, each in schema.pop("$defs", {}).items()}
    body = {key: each for key, each in schema.items() if key not in {"$schema", "$id"}}
    return {name: body, **found} if name else found
