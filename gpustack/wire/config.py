"""Configuration files: YAML, checked against a published schema, with its defaults filled in."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any, Final

import yaml

from gpustack.model.errors import GpustackError
from gpustack.wire import schemas
from gpustack.wire.files import regular_file
from gpustack.wire.files.strict_yaml import StrictLoader, load, refused

_MOST_BYTES: Final = 1 << 20  # a thousand times as long as ours


class ConfigError(GpustackError):
    """A configuration that can't be used.

    Attributes:
        path: the file.
        problems: one line each: the path of the value and what is allowed there.
    """

    def __init__(self, path: pathlib.Path, problems: list[str]) -> None:
        self.path: Final = path
        self.problems: Final = tuple(problems)
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))


class _ConfigLoader(StrictLoader):
    """Refuses `.nan`, which is within every limit of a schema."""

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        value = super().construct_yaml_float(node)
        if not math.isfinite(value):
            raise refused(node, f"{node.value} is not a number")
        return value


# A loader's constructors are kept by tag, and the inherited one would be called.
_ConfigLoader.add_constructor("tag:yaml.org,2002:float", _ConfigLoader.construct_yaml_float)


def load_config(path: str | pathlib.Path, schema_name: str) -> dict[str, Any]:
    """Read a configuration file and fill in the schema's defaults.

    Raises:
        ConfigError: the file can't be read, isn't YAML, or breaks the schema; lists every
            problem with its path.
    """
    file = pathlib.Path(path)
    try:
        text = regular_file.read_named(file, max_bytes=_MOST_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(file, [f"can't be read: {error}"]) from error
    return parse_config(text, schemas.load(schema_name), file)


def parse_config(text: str, schema: Mapping[str, Any], file: pathlib.Path) -> dict[str, Any]:
    """Do what `load_config` does with a text that was read already; `file` is for errors.

    Raises:
        ConfigError: as `load_config`.
    """
    try:
        value = load(text, _ConfigLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(file, [f"is not YAML: {_one_line(error)}"]) from error
    value = {} if value is None else value
    problems = schemas.problems(schema, value)
    if problems:
        raise ConfigError(file, problems)
    filled: dict[str, Any] = _with_defaults(schema, value)
    return filled


def _with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """Return `value` with the defaults of its schema's properties, at every depth."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_with_defaults(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, each in schema.get("properties", {}).items():
        if name in filled:
            filled[name] = _with_defaults(each, filled[name])
        elif "default" in each:
            filled[name] = _with_defaults(each, each["default"])
    return filled


def _one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())
