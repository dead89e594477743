"""The description of the paths: it names every path, and answers are as described."""

import re
from collections.abc import Iterator
from typing import Any

import flask
import hypothesis
import jsonschema
import pytest
import schemathesis
from schemathesis.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from extender.api import openapi
from extender.api.app import create_app
from tests.extender.mini_cluster import MiniCluster, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi

pytestmark = pytest.mark.long

PART = 10  # of the profile's examples: 20 a path and mode in CI, 2 000 in the nightly one
CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]


def app(mini: MiniCluster) -> flask.Flask:
    return create_app(mini.service, request_limit_bytes=1 << 20)


def test_the_description_names_every_route_and_no_other(mini: MiniCluster) -> None:
    routes = {
        (re.sub(r"<(\w+)>", r"{\1}", rule.rule), method.lower())
        for rule in app(mini).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    paths = openapi.description()["paths"]
    assert {(path, method) for path, methods in paths.items() for method in methods} == routes


def test_the_description_is_served(mini: MiniCluster) -> None:
    assert mini.call("GET", "/v1/openapi.json").body == openapi.description()


def test_every_reference_of_the_description_leads_somewhere() -> None:
    schemas = openapi.description()["components"]["schemas"]
    targets = re.findall(r"'\$ref': '([^']*)'", str(openapi.description()))
    assert targets
    assert {target.removeprefix("#/components/schemas/") for target in targets} <= schemas.keys()
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def operations(*, asked: bool) -> list[tuple[str, str]]:
    """The paths with their methods; those with a body or a name in them, or the others."""
    return sorted(
        (path, method)
        for path, methods in openapi.description()["paths"].items()
        for method, operation in methods.items()
        if asked == ("requestBody" in operation or "parameters" in operation)
    )


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The paths of an extender that knows some nodes and pods, for bodies to be made up."""
    with FakeKubeApi() as api:
        for name in ("gpu1", "gpu2"):
            api.create("nodes", node(name))
        with serving(api, tmp_path_factory.mktemp("openapi")) as mini:
            mini.place("a", 40, 32)
            mini.create(pod("big", 400))
            yield schemathesis.openapi.from_wsgi("/v1/openapi.json", app(mini))


def check(case: Any) -> None:
    answer = case.call()
    assert answer.status_code != 500, answer.text
    assert "Traceback" not in answer.text
    case.validate_response(answer, checks=CHECKS)


@pytest.mark.parametrize(("path", "method"), operations(asked=False))
def test_a_path_answers_as_described(described: Any, path: str, method: str) -> None:
    check(described[path][method.upper()].Case())


def fuzzed() -> Iterator[Any]:
    """Paths with something to make up, well and badly; no name of a path is bad."""
    for path, method in operations(asked=True):
        for mode in schemathesis.GenerationMode:
            if method == "post" or mode is schemathesis.GenerationMode.POSITIVE:
                yield pytest.param(path, method, mode, id=f"{mode.value} {path}")


# The extender's own threads draw random pauses meanwhile; the strategies here don't.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize(("path", "method", "mode"), list(fuzzed()))
def test_any_request_gets_an_answer_as_described(
    described: Any, path: str, method: str, mode: schemathesis.GenerationMode
) -> None:
    operation = described[path][method.upper()]
    examples = max(1, hypothesis.settings().max_examples // PART)

    @hypothesis.settings(max_examples=examples, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        check(case)

    ask()
