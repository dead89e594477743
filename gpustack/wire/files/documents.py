"""The documents of a YAML or JSON file, and on which line each of their fields stands."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from gpustack.model.errors import GpustackError
from gpustack.wire.files.strict_yaml import StrictLoader

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_JSON: Final = re.compile(r'\s*[{\[]\s*["{\[\]}]')  # how JSON begins, and YAML hardly ever


class BadDocument(GpustackError, ValueError):
    """A file that is neither YAML nor JSON; the message names file, line and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file.

    Attributes:
        path: how messages name the file.
        value: plain values.
        text: all of the file, to find lines in when something is wrong.
        number: which of its documents, from 0.
    """

    path: str
    value: Any
    text: str
    number: int = 0

    def place(self, field: str) -> str:
        """Return `FILE:LINE: FIELD`, where the field or the nearest one around it stands."""
        line = self._line(field)
        return f"{self.path}:{line}: {field}" if line else f"{self.path}: {field}"

    def _line(self, field: str) -> int:
        try:
            nodes = list(yaml.compose_all(self.text, StrictLoader))
        except (yaml.YAMLError, RecursionError):
            return 0  # JSON that isn't YAML: indented by tabs, or nested deeply
        node = nodes[self.number]
        line: int = node.start_mark.line
        for index, name in _STEP.findall(field):
            found = _child(node, index or name)
            if found is None:
                break
            mark, node = found
            line = mark.line
        return line + 1


def documents(path: str, text: str) -> list[Document]:
    """Return the documents of a file, without the empty ones.

    Raises:
        BadDocument: it is neither YAML nor JSON, a key stands twice, or there is nothing in it.
    """
    values = _json(path, text) if _JSON.match(text) else None
    found = [
        Document(path=path, value=value, text=text, number=number)
        for number, value in enumerate(_yaml(path, text) if values is None else values)
        if value is not None
    ]
    if not found:
        raise BadDocument(f"{path}: is empty")
    return found


def _json(path: str, text: str) -> list[Any] | None:
    """Return the one value; None where the text is to be read as YAML."""
    try:
        return [json.loads(text, object_pairs_hook=_distinct)]
    except json.JSONDecodeError as error:
        try:
            list(yaml.compose_all(text, StrictLoader))
        except (yaml.YAMLError, RecursionError):
            place = f"{path}:{error.lineno}:{error.colno}"
            raise BadDocument(f"{place}: is not JSON: {error.msg}") from error
        return None
    except ValueError as error:
        raise BadDocument(f"{path}: is not JSON: {error}") from error
    except RecursionError as error:
        raise BadDocument(f"{path}: is nested too deeply") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice")
    return found


def _yaml(path: str, text: str) -> list[Any]:
    try:
        return list(yaml.load_all(text, StrictLoader))  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = path if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"
        raise BadDocument(f"{place}: is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:  # a character that no YAML has
        raise BadDocument(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise BadDocument(f"{path}: is nested too deeply") from error


def _child(node: yaml.Node, name: str) -> tuple[yaml.Mark, yaml.Node] | None:
    """Return where a member of a mapping or a sequence begins, and its value."""
    if isinstance(node, yaml.SequenceNode) and name.isdigit() and int(name) < len(node.value):
        value = node.value[int(name)]
        return value.start_mark, value
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == name:
                return key.start_mark, value
    return None
