"""Argument specs, defaults and READMEs agree; these tests check the rest."""

import re

import pytest

from tests.ansible import layout, readmes
from tests.testbed import root

ENTRY_POINTS = (
    "main", "preflight", "cluster", "running_pods", "outdated", "remove_unused", "narrow",
    "uninstall", "verify", "clean", "drain",
)  # fmt: skip
# A name that is another role's inner file.
OWN_ENTRY_POINTS = {
    "cluster_objects": ("forget", "remove_tokens", "tokens", "try_node"),
    "gpustack_extender": ("tokens", "trust", "finish"),
    "gpustack_hook": ("same_paths",),
    "kube_scheduler": ("processes",),
    "host_snapshot": ("take", "look", "done", "ready", "restore"),
    "node_maintenance": ("restore",),
    "nvidia_driver": ("plan", "in_place", "reload", "unused"),
    "support": ("pack",),
}
# Roles of checks and reports, and of what a run takes back itself.
INSTALLS_NOTHING = {"node_maintenance", "preflight", "support"}


@pytest.mark.parametrize("role", layout.ROLES)
def test_defaults_and_specs_name_the_same_variables_in_the_same_order(role: str) -> None:
    optional = [name for name, option in layout.options(role).items() if not option.get("required")]
    assert list(layout.defaults(role)) == sorted(layout.defaults(role), key=optional.index)
    assert set(layout.defaults(role)) == set(optional)


@pytest.mark.parametrize("role", layout.ROLES)
def test_defaults_and_specs_give_the_same_values(role: str) -> None:
    for entry in layout.specs(role).values():
        for name, option in (entry.get("options") or {}).items():
            if not option.get("required"):
                assert option["default"] == layout.defaults(role)[name], name


@pytest.mark.parametrize("role", layout.ROLES)
def test_every_variable_is_described_and_starts_with_its_role(role: str) -> None:
    for name, option in layout.options(role).items():
        assert name.startswith(f"{role}_"), name
        assert option["description"], name
        assert option["type"], name


@pytest.mark.parametrize("role", layout.ROLES)
def test_every_required_variable_stands_in_defaults_as_a_comment(role: str) -> None:
    text = (layout.ROOT / "roles" / role / "defaults" / "main.yml").read_text("utf-8")
    for name, option in layout.options(role).items():
        if option.get("required"):
            assert f"# {name}:" in text, name


@pytest.mark.parametrize("role", layout.ROLES)
def test_every_entry_point_has_a_spec_and_every_spec_has_an_entry_point(role: str) -> None:
    files = {path.stem for path in (layout.ROOT / "roles" / role / "tasks").glob("*.yml")}
    assert set(layout.specs(role)) == files & {*ENTRY_POINTS, *OWN_ENTRY_POINTS.get(role, ())}
    assert "uninstall" in files or role in INSTALLS_NOTHING


@pytest.mark.parametrize("role", layout.ROLES)
def test_every_own_variable_that_a_role_reads_is_defined(role: str) -> None:
    known = set(layout.options(role))
    folder = layout.ROOT / "roles" / role
    texts = [
        path.read_text("utf-8")
        for part in ("tasks", "templates", "handlers", "vars")
        for path in (folder / part).rglob("*")
        if path.is_file()
    ]
    # A fact that the role sets for others is defined by the role itself.
    for text in texts:
        known.update(re.findall(rf"^ +({role}_\w+):", text, re.MULTILINE))
    for text in texts:
        used = set(re.findall(rf"(?<![\w.'/-])({role}_\w+)\b(?!\()", text))
        filters = {name for name in used if re.search(rf"\| {name}\b", text)}
        assert used - filters <= known, used - filters - known


@pytest.mark.parametrize("role", layout.ROLES)
def test_a_role_claims_the_platforms_that_tests_run_on(role: str) -> None:
    about = layout.load(layout.ROOT / "roles" / role / "meta" / "main.yml")["galaxy_info"]
    assert about["platforms"] == [{"name": "Debian", "versions": list(root.SUITES)}]


@pytest.mark.parametrize("role", layout.ROLES)
def test_each_readme_follows_the_specs(role: str) -> None:
    path = layout.ROOT / "roles" / role / "README.md"
    assert path.read_text("utf-8") == readmes.render(role), "run `python -m tests.ansible.readmes`"
