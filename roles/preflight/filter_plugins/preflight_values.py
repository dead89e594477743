"""The filter that finds values that a role doesn't take, by its argument specs."""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

KEPT = ("type", "elements", "choices")


def problems(values: Mapping[str, Any], specs: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with variables, in words.

    Args:
        values: by name.
        specs: the role's, by entry point. (Their defaults are templates, and are the role's own.)
    """
    options = {
        name: {key: option[key] for key in KEPT if key in option}
        for entry in specs.values()
        for name, option in (entry.get("options") or {}).items()
        if name in values
    }
    known = {name: value for name, value in values.items() if name in options}
    found = []
    for name, value in known.items():
        # Ansible takes "a,b" for a list, and a loop over it would see letters.
        if options[name]["type"] == "list" and isinstance(value, str):
            found.append(f"{name} is the text {value}, and must be a list")
        # It takes 7 and `on` for texts, and a label or a file would have a number or a boolean.
        if options[name]["type"] == "str" and isinstance(value, int | float):
            found.append(f"{name} is no text for YAML: write its value in quotes")
    return [*found, *ArgumentSpecValidator(options).validate(known).error_messages]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {"preflight_problems": problems}
