"""Configuration files: every problem with its path, defaults filled in."""

import os
import pathlib
from typing import Any

import jsonschema
import pytest

from gpustack.wire import schemas
from gpustack.wire.config import ConfigError, load_config, parse_config

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["node"],
    "properties": {
        "node": {"type": "string", "description": "a host name", "pattern": "^[a-z0-9.-]+$"},
        "level": {"enum": ["info", "debug"], "default": "info"},
        "http": {
            "type": "object",
            "additionalProperties": False,
            "default": {},
            "properties": {
                "port": {"type": "integer", "minimum": 1, "maximum": 65535, "default": 5678}
            },
        },
        "cards": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"minor": {"type": "integer"}, "shared": {"default": True}},
            },
        },
    },
}


FILE = pathlib.Path("agent.yml")
SHIPPED = sorted(pathlib.Path(schemas.__file__).parent.glob("*.json"))


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, SCHEMA, FILE)
    assert all(line.startswith("agent.yml: ") for line in str(caught.value).splitlines())
    return list(caught.value.problems)


def test_defaults_are_filled_in_at_every_depth() -> None:
    found = parse_config("node: gpu1\ncards: [{minor: 0}, {minor: 1, shared: false}]", SCHEMA, FILE)
    assert found == {
        "node": "gpu1",
        "level": "info",
        "http": {"port": 5678},
        "cards": [{"minor": 0, "shared": True}, {"minor": 1, "shared": False}],
    }


def test_values_of_the_file_stand_before_the_defaults() -> None:
    text = "node: gpu1\nlevel: debug\nhttp: {port: 80}"
    assert parse_config(text, SCHEMA, FILE) == {
        "node": "gpu1",
        "level": "debug",
        "http": {"port": 80},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the document: node is missing"),
        ("- 1", "the document: [1] is not of type object"),
        ("node: 5", "node: 5 is not of type string"),
        ("node: GPU_1", "node: 'GPU_1' is not allowed; expected: a host name"),
        ("node: a\nlevel: loud", "level: 'loud' is not one of info, debug"),
        ("node: a\nhttp: {port: 0}", "http.port: 0 is less than 1"),
        ("node: a\nhttp: {port: 70000}", "http.port: 70000 is more than 65535"),
        (
            "node: a\nhttp: {prot: 1}",
            "http: prot is not known here; allowed: port",
        ),
        ("node: a\ncards: [{}, {minor: x}]", "cards[1].minor: 'x' is not of type integer"),
    ],
)
def test_a_problem_is_told_with_its_path_and_what_is_allowed(text: str, problem: str) -> None:
    assert problems(text) == [problem]


@pytest.mark.parametrize("number", [".nan", "-.inf", ".Inf"])
def test_an_infinite_or_undefined_number_is_named_with_its_line(number: str) -> None:
    assert f"line 2: {number} is not a number" in problems(f"node: a\nratio: {number}")[0]


def test_several_missing_keys_are_told_once() -> None:
    required = {"type": "object", "required": ["key", "certificate"]}
    assert schemas.problems(required, {}) == ["the document: certificate, key is missing"]


def test_all_problems_are_told_at_once() -> None:
    assert len(problems("nod: a\nlevel: loud\nhttp: {port: 0}")) == 4


@pytest.mark.parametrize(
    "text", ["{", "node: a\nnode: b", "? [a]\n: b", "!!python/object:os.system x", "[" * 1000]
)
def test_text_that_is_not_plain_yaml_is_refused_in_one_line(text: str) -> None:
    [problem] = problems(text)
    assert problem.startswith("is not YAML: ")
    assert "\n" not in problem


def test_a_key_that_stands_twice_is_named_with_its_line() -> None:
    assert "line 2: the key 'node' stands twice" in problems("node: a\nnode: b")[0]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("!!timestamp nope", "is not YAML: line 2: 'nope' is no timestamp"),
        ("!!int abc", "is not YAML: line 2: 'abc' is no int"),
        ("!!int ''", "is not YAML: line 2: '' is no int"),
        ("!!float x", "is not YAML: line 2: 'x' is no float"),
        ("!!bool maybe", "is not YAML: line 2: 'maybe' is no bool"),
        ("!!set [a]", "is not YAML: line 2: a list is no mapping"),
        ("!!map x", "is not YAML: line 2: 'x' is no mapping"),
        ("1" * 5000, f"is not YAML: line 2: '{'1' * 40}...' is no int"),
        ("!!set {a, b}", "node: {'a', 'b'} is not of type string"),
        ("!!binary YQ==", "node: b'a' is not of type string"),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_line(value: str, problem: str) -> None:
    [found] = problems(f"level: debug\nnode: {value}")
    assert found.startswith(problem.replace("{'a', 'b'}", repr({"a", "b"})))
    assert "\n" not in found


@pytest.mark.parametrize("date", ["2026-13-45", "2026-01-01"])
def test_a_date_is_a_text(date: str) -> None:
    port = f"http.port: '{date}' is not of type integer"
    assert problems(f"node: {date}\nhttp: {{port: {date}}}") == [port]


def test_a_file_that_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yml: can't be read"):
        load_config(tmp_path / "none.yml", "gpu-devices")
    latin = tmp_path / "latin.yml"
    latin.write_bytes(b"node: \xff")
    with pytest.raises(ConfigError, match=r"latin\.yml: can't be read"):
        load_config(latin, "gpu-devices")


def test_a_fifo_or_an_endless_file_is_refused_at_once(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "agent.yml")
    for file in (tmp_path / "agent.yml", pathlib.Path("/dev/zero")):
        with pytest.raises(ConfigError, match=f"{file}: can't be read: is no regular file"):
            load_config(file, "agent")
    long = tmp_path / "long.yml"
    long.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match=r"can't be read: is longer than 1048576 bytes"):
        load_config(long, "agent")


def test_a_file_is_checked_against_the_schema_of_that_name(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "devices.yml"
    file.write_text("version: 1\ndevices: []\nlinks: []\n")
    assert load_config(file, "gpu-devices") == {"version": 1, "devices": [], "links": []}


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_shipped_schema_is_one(file: pathlib.Path) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas.load(file.stem))
