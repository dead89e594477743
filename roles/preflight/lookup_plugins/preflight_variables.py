"""Lookup `preflight_variables`: what is wrong with variables of roles, by their argument specs."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = r"""
name: preflight_variables
short_description: What is wrong with variables of roles
description:
  - Returns a sentence for each role that has a variable that it doesn't know, or a value that it
    doesn't take. A role says so itself when it begins, but other hosts have been changed by then.
    One look-up for all roles, because Ansible's own reader of YAML takes a tenth of a second for
    the specs of one.
options:
  _terms: {description: Names of roles., required: true}
  folder: {description: The folder of the roles., type: path, required: true}
  check: {description: What to look at., choices: [names, values], required: true}
  handed_on:
    description: Names that playbooks hand from role to role.
    type: list
    elements: str
    default: []
"""

KEPT = ("type", "elements", "choices")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def problems(values: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the values of variables, in words.

    Args:
        values: by name.
        options: of these names, from the role's specs. (Defaults there are templates, and are the
            role's own.)
    """
    kept = {
        name: {key: option[key] for key in KEPT if key in option}
        for name, option in options.items()
        if name in values
    }
    found = []
    for name, value in values.items():
        # Ansible takes "a,b" for a list, and a loop over it would see letters.
        if kept[name]["type"] == "list" and isinstance(value, str):
            found.append(f"{name} is the text {value}, and must be a list")
        # It takes 7 and `on` for texts, and a label or a file would have a number or a boolean.
        if kept[name]["type"] == "str" and isinstance(value, int | float):
            found.append(f"{name} is no text for YAML: write its value in quotes")
    return [*found, *ArgumentSpecValidator(kept).validate(values).error_messages]


def options_of(folder: str, role: str) -> dict[str, Any]:
    """Return the options of a role, of all its entry points."""
    text = pathlib.Path(folder, role, "meta/argument_specs.yml").read_text(encoding="utf-8")
    entries = yaml.load(text, LOADER)["argument_specs"].values()  # noqa: S506 a safe one
    options = [each.get("options") or {} for each in entries]
    return {name: option for each in options for name, option in each.items()}


class LookupModule(LookupBase):
    """Ansible's entry point."""

    def run(
        self, terms: list[str], variables: Mapping[str, Any] | None = None, **options: Any
    ) -> list[str]:
        """Return the sentences."""
        self.set_options(var_options=variables, direct=options)
        look = self._names if self.get_option("check") == "names" else self._values
        folder = self.get_option("folder")
        said = [look(role, options_of(folder, role), variables or {}) for role in terms]
        return [sentence for sentence in said if sentence]

    def _names(self, role: str, options: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
        known = {*options, *self.get_option("handed_on")}
        unknown = [each for each in variables if each.startswith(f"{role}_") and each not in known]
        if not unknown:
            return ""
        readme = f"see roles/{role}/README.md for the names it has"
        return f"Role {role} has no variable {', '.join(sorted(unknown))}: {readme}."

    def _values(self, role: str, options: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
        # A required one is handed on by a playbook.
        asked = {name: each for name, each in options.items() if "required" not in each}
        values = {
            name: self._templar.template(variables[name]) for name in asked if name in variables
        }
        found = problems(values, asked)
        return f"{'; '.join(found)}: see roles/{role}/README.md." if found else ""
