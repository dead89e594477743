"""Writes each role's README.md from its argument specs: ``python -m tests.ansible.readmes``.

A test compares the files in the repository with this program's output, so the two can't drift.
"""

import json
import sys
from typing import Any

from tests.ansible import layout

HEADER = "<!-- Generated from meta/ by `python -m tests.ansible.readmes`: change it there. -->"


def prose(description: str | list[str] | None) -> str:
    """Return a description as one paragraph, with Ansible's C(code) as Markdown's."""
    sentences = [description] if isinstance(description, str) else description or []
    text = " ".join(sentence.strip() for sentence in sentences)
    out: list[str] = []
    while "C(" in text:
        before, _, rest = text.partition("C(")
        code, _, text = rest.partition(")")
        out += [before, f"`{code}`"]
    return "".join(out) + text


def value(option: dict[str, Any]) -> str:
    """Return the text of the default column."""
    if option.get("required"):
        return "**required**"
    default = option.get("default")
    shown = default if isinstance(default, str) and default else json.dumps(default)
    return f"`{shown}`"


def kind(option: dict[str, Any]) -> str:
    """Return type and choices of an option."""
    elements = f" of {option['elements']}" if "elements" in option else ""
    choices = (
        f": {', '.join(f'`{one}`' for one in option['choices'])}" if "choices" in option else ""
    )
    return f"{option['type']}{elements}{choices}"


def entry(name: str, spec: dict[str, Any]) -> list[str]:
    """Return the section of one entry point."""
    lines = [f"## {name}: {spec['short_description']}", ""]
    if text := prose(spec.get("description")):
        lines += [text, ""]
    options = spec.get("options") or {}
    if not options:
        return [*lines, "No variables.", ""]
    lines += ["| variable | type | default | meaning |", "|---|---|---|---|"]
    for variable, option in options.items():
        meaning = prose(option["description"])
        lines.append(f"| `{variable}` | {kind(option)} | {value(option)} | {meaning} |")
    return [*lines, ""]


def render(role: str) -> str:
    """Return a role's README."""
    about = layout.load(layout.ROOT / "roles" / role / "meta" / "main.yml")["galaxy_info"]
    lines = [HEADER, "", f"# {role}", "", f"{about['description']}.", ""]
    for name, spec in layout.specs(role).items():
        lines += entry(name, spec)
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> None:
    """Write every README and name those that changed."""
    for role in layout.ROLES:
        path = layout.ROOT / "roles" / role / "README.md"
        if not path.exists() or path.read_text("utf-8") != render(role):
            path.write_text(render(role), "utf-8")
            sys.stdout.write(f"wrote {path.relative_to(layout.ROOT)}\n")


if __name__ == "__main__":
    main()
