"""The tests that a decision, a guide, or the pages about Kubernetes and upgrades name exist."""

import pathlib
import re

import pytest

from tests.testbed.artifacts import kubernetes

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "docs" / "reference" / "kubernetes.md"
UPGRADES = ROOT / "docs" / "upgrades.md"
OF_USERS = ("comparison", "install", "operations", "quota", "tenants")
GUIDES = [ROOT / "docs" / f"{each}.md" for each in OF_USERS]
PAGES = [*sorted((ROOT / "docs" / "decisions").glob("*.md")), KUBERNETES, UPGRADES, *GUIDES]
NAMED = re.compile(r"`(?:tests/)?([\w/]+\.py)::(test_\w+)`")


def named() -> list[tuple[str, str, str]]:
    """Return page, file below `tests/` and function of every test that a page names."""
    return [
        (page.name, *found)
        for page in PAGES
        for found in dict.fromkeys(NAMED.findall(page.read_text("utf-8")))
    ]


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    missing = [
        f"{file}::{function}"
        for where, file, function in named()
        if where == page
        and not re.search(rf"^def {function}\(", (ROOT / "tests" / file).read_text("utf-8"), re.M)
    ]
    assert missing == []


def test_the_list_of_faults_has_a_test_for_each() -> None:
    text = (ROOT / "docs" / "decisions" / "0008-thirty-faults.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+)(?: \+)? \|[^|]*\|([^|]*)\|", text, re.MULTILINE)
    assert {int(fault) for fault, tests in rows if ".py" in tests} == set(range(1, 31))


def test_every_change_of_kubernetes_names_its_test() -> None:
    _, _, table = KUBERNETES.read_text("utf-8").partition("\n| what changed |")
    rows = table.partition("\n\n")[0].splitlines()[2:]
    assert rows
    assert [row for row in rows if not NAMED.search(row.split("|")[-2])] == []


def test_the_versions_of_kubernetes_that_are_tried_are_the_testbeds() -> None:
    _, _, table = KUBERNETES.read_text("utf-8").partition("\n| program |")
    rows = [row.split("|") for row in table.partition("\n\n")[0].splitlines()[2:]]
    named = [row[2].strip() for row in rows if "Debian" not in row[1]]
    releases = (kubernetes.LATEST, kubernetes.OLDER, kubernetes.POLICY)
    assert [f"v{version}" for version in named] == [release.version for release in releases]


def test_make_nightly_runs_the_suites_on_the_older_release() -> None:
    _, _, recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nnightly:")
    wanted = f"api-server e2e TESTBED=testbed TESTBED_KUBERNETES={kubernetes.OLDER.minor}\n"
    assert wanted in recipe.partition("\n\n")[0] + "\n"
