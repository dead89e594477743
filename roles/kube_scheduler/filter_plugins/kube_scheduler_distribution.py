"""A filter that finds what keeps k3s or RKE2 from reading our argument file.

Both read config.yaml, then a folder of files in the order of their names. A later file's key
replaces an earlier one's; with a `+` at its end it adds to that
(https://docs.k3s.io/installation/configuration#multiple-config-files).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

# PyYAML's own, where a value is none of its kind: a date of the 13th month, `!!bool maybe`.
NOT_YAML = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


def obstacle(files: Mapping[str, str], ours: str, wanted: Mapping[str, list[str]]) -> str:
    """Return what has to be changed in another argument file, and how; empty for nothing.

    A file's content may be a secret: no message has more of it than a path.

    Args:
        files: each file's text by its path, those of the folder in the order of their names.
        ours: the path of our own, which may be among them.
        wanted: the content of ours: keys with a `+` at their ends.
    """
    config = wanted["kube-scheduler-arg+"][0].partition("=")[2]
    folder = ours.rpartition("/")[0]
    for path, text in files.items():
        if path == ours:
            continue
        try:
            said = yaml.safe_load(text) or {}
        except NOT_YAML:
            return f"{path} is no YAML: mend this file"
        if not isinstance(said, dict):
            return f"{path} has no keys: mend this file"
        others = [one for one in _configurations(said) if one != config]
        if others:
            return (
                f"{path} gives the scheduler the configuration {others[0]} already: set "
                "kube_scheduler_config_path to that, and our entries are merged into it"
            )
        hiding = [key for key in wanted if key.removesuffix("+") in said]
        if hiding and path.rpartition("/")[0] == folder and path > ours:
            key = hiding[0].removesuffix("+")
            return f"{path} is read after {ours}, and its {key} replaces ours: name it {key}+ there"
    return ""


def _configurations(said: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the configurations that a file names to the scheduler."""
    for key in ("kube-scheduler-arg", "kube-scheduler-arg+"):
        given = said.get(key) or []
        for one in given if isinstance(given, list) else [given]:
            name, _, value = str(one).lstrip("-").partition("=")
            if name == "config":
                yield value


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by the name that tasks use."""
        return {"kube_scheduler_argument_obstacle": obstacle}
