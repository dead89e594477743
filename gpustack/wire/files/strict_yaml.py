"""YAML as the Kubernetes tools read it, and with no error but YAML's own.

A key that stands twice is an error, and a date is a text like any other. PyYAML lets Python's
errors out where a value is none of its kind (`!!int x`, `!!bool maybe`): here they name the place.
"""

from typing import Any, Final

import yaml

_MOST_SHOWN: Final = 40  # characters of a value


class StrictLoader(yaml.SafeLoader):
    """All of YAML 1.1 but its dates; each error has a `problem_mark`."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own form
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return a node's value."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise refused(node, f"{_shown(node)} is no {kind}") from error

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping whose keys differ."""
        if not isinstance(node, yaml.MappingNode):
            raise refused(node, f"{_shown(node)} is no mapping")
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in names:
                    raise refused(key, f"the key {key.value!r} stands twice")
                names.add(key.value)
        return super().construct_mapping(node, deep=deep)


def load(text: str, loader: type[StrictLoader] = StrictLoader) -> Any:
    """Return the value of a text of one document.

    Raises:
        YAMLError: it isn't YAML, or holds several.
        RecursionError: it is nested too deeply.
    """
    reader = loader(text)
    try:
        return reader.get_single_data()
    finally:
        reader.dispose()


def refused(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    """Return the error of a node."""
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _shown(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    text: str = node.value
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...")
