"""The JSON Schemas of everything that people or other programs write, and checking against them.

The schemas lie beside this file as `NAME.json`. Problems have our own words, with the path
of the value and what is allowed there, as an editor of the file needs them.
"""

import decimal
import functools
import importlib.resources
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import jsonschema
from jsonschema.exceptions import ValidationError


@functools.cache
def load(name: str) -> Mapping[str, Any]:
    """Return the schema `NAME.json`; callers don't change it.

    Raises:
        FileNotFoundError: there is no such schema, which is a defect of the caller.
    """
    text = importlib.resources.files(__package__).joinpath(f"{name}.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def problems(schema: Mapping[str, Any], value: object, most: int | None = None) -> list[str]:
    """Return every way in which `value` breaks `schema`, in order of place; none is [].

    Each costs some 20 us: ``most`` bounds the search where a tenant or another program wrote it.
    """
    found = _Validator(schema).iter_errors(value)
    errors = itertools.islice(found, most)
    return sorted({_tell(error) for error in errors})  # each of several missing keys names all


def _pattern(
    validator: Any, pattern: str, instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """Match as schemas mean it: Python's `$` matches before a newline at the end, too."""
    del validator, schema
    whole = rf"{pattern[:-1]}\Z" if pattern.endswith("$") else pattern
    if isinstance(instance, str) and not re.search(whole, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_Validator: Final = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"pattern": _pattern}
)


def _tell(error: ValidationError) -> str:
    schema: Any = error.schema
    said = _said(str(error.validator), error.instance, error.validator_value, schema)
    return f"{_path(error.absolute_path)}: {said or error.message}"


def _path(parts: Any) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "the document"


def _said(rule: str, value: Any, wanted: Any, schema: Mapping[str, Any]) -> str:
    """Say what is wrong with a value in a sentence; empty for the rules that are rarely broken."""
    match rule:
        case "additionalProperties":
            allowed = sorted(schema.get("properties", {}))
            unknown = sorted(str(key) for key in value if key not in allowed)
            said = f"{', '.join(unknown)} is not known here; allowed: {', '.join(allowed)}"
        case "required":
            said = f"{', '.join(sorted(key for key in wanted if key not in value))} is missing"
        case "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            said = f"{_shown(value)} is not of type {' or '.join(names)}"
        case "enum":
            said = f"{_shown(value)} is not one of {', '.join(map(str, wanted))}"
        case "pattern":
            meaning = schema.get("description", f"text that matches {wanted}")
            said = f"{_shown(value)} is not allowed; expected: {meaning}"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            said = f"{_shown(value)} is {_LIMITS[rule]} {wanted}"
        case "maxLength":
            said = f"{_shown(value)} is longer than {wanted} characters"
        case "maxItems":
            said = f"has {len(value)} members; {wanted} are allowed"
        case _:
            said = ""
    return said


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, decimal.Decimal) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_LIMITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "minimum": "less than",
        "exclusiveMinimum": "not more than",
        "maximum": "more than",
        "exclusiveMaximum": "not less than",
    }
)
