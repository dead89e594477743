"""The paths of the roles' files, and how they are read."""

import pathlib
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = tuple(sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir()))


def load(path: pathlib.Path) -> Any:
    """Return a YAML file's content."""
    return yaml.safe_load(path.read_text("utf-8"))


def specs(role: str) -> dict[str, dict[str, Any]]:
    """Return a role's entry points, each with its options."""
    found: dict[str, dict[str, Any]] = load(ROOT / "roles" / role / "meta" / "argument_specs.yml")[
        "argument_specs"
    ]
    return found


def options(role: str) -> dict[str, dict[str, Any]]:
    """Return all options of a role, in the order in which its entry points name them first."""
    merged: dict[str, dict[str, Any]] = {}
    for entry in specs(role).values():
        for name, option in (entry.get("options") or {}).items():
            merged.setdefault(name, option)
    return merged


def defaults(role: str) -> dict[str, Any]:
    """Return a role's default variables."""
    found: dict[str, Any] = load(ROOT / "roles" / role / "defaults" / "main.yml") or {}
    return found
