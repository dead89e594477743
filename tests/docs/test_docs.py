"""The documents name things that exist, and name each of them."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name not in {"CHANGELOG.md", "0008-thirty-faults.md"}  # they tell the past
)
# a folder of the project holds at least one of these files
SOURCES = (".py", ".c", ".mod", ".yml", ".sh")
SCRIPTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("*.sh"))


def folders(below: str) -> list[str]:
    """Return the folders one level down that hold sources, as paths from the root."""
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / below).iterdir())
        if path.is_dir() and any(found.suffix in SOURCES for found in path.rglob("*"))
    ]


def text(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


@pytest.mark.parametrize("folder", [*folders("gpustack"), *folders("tests"), "extender", "hook"])
def test_the_architecture_names_every_package(folder: str) -> None:
    assert f"`{folder}`" in text("docs/architecture.md")


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "architecture").glob("*.md")), ids=lambda each: each.stem
)
def test_a_path_through_the_code_has_ten_files_at_most(page: pathlib.Path) -> None:
    files = re.findall(r"^\| `(\S+)` \|", page.read_text("utf-8"), re.MULTILINE)
    assert 0 < len(files) <= 10
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert f"architecture/{page.name}" in text("docs/architecture.md")


def test_every_folder_of_the_extender_is_named() -> None:
    folders = [path.parent.name for path in (ROOT / "extender").glob("*/__init__.py")]
    assert [name for name in folders if f"`{name}`" not in text("docs/architecture.md")] == []


def test_every_decision_is_in_the_architecture() -> None:
    pages = [path.name for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert [
        name for name in pages if f"(decisions/{name})" not in text("docs/architecture.md")
    ] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", text("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", text(document), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", [*DOCUMENTS, *SCRIPTS])
def test_every_path_that_a_document_names_exists(document: str) -> None:
    tops = "docs|playbooks|roles|inventories|hook|gpustack|extender|tests|molecule"
    named = re.findall(rf"(?:`|\s)((?:{tops})/[A-Za-z0-9_./-]*[A-Za-z0-9_])", text(document))
    yours = {"inventories/mysite"}  # the reader's own
    assert [path for path in named if path not in yours and not (ROOT / path).exists()] == []


def test_operations_lists_every_playbook_that_an_operator_runs() -> None:
    parts = set(re.findall(r"import_playbook: (\S+)", text("playbooks/site.yml")))
    for playbook in (ROOT / "playbooks").glob("*.yml"):
        if playbook.name not in parts - {"preflight.yml"} and playbook.name != "site.yml":
            assert f"`playbooks/{playbook.name}`" in text("docs/operations.md")


REAL = re.compile(r"<!-- card: (?P<card>.*?) -->.*?<!-- end of card: (?P=card) -->", re.DOTALL)


def test_every_figure_of_isolation_says_which_card_it_is_from() -> None:
    page = REAL.sub("", text("docs/benchmarks.md"))
    _, *sections = re.split(r"^## ", page, flags=re.MULTILINE)
    first = next(i for i, each in enumerate(sections) if each.startswith("A program without CUDA"))
    assert len(sections[first:]) == 8
    for section in sections[first:]:
        assert re.search(r"simulated card|No card\b", section), section.splitlines()[0]


@pytest.mark.parametrize("document", ["docs/isolation.md", "docs/decisions/0006-gpu-time.md"])
def test_a_page_of_isolation_says_that_its_card_is_simulated(document: str) -> None:
    assert "simulated card" in text(document)


def test_no_text_gives_nvidia_smi_a_minor() -> None:
    """Its `-i` takes an index, a UUID or a bus address, and an index isn't always the minor."""
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "gpustack").rglob("*.py")]
    wrong = re.compile(r"nvidia-smi[^`]* -i MINOR")
    assert [str(path) for path in texts if wrong.search(path.read_text("utf-8"))] == []
