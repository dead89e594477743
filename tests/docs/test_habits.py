"""Hooks, editors and the site follow the Makefile, the formatters and the pages."""

import pathlib
import re
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHERS = (".png", ".patch")  # as .editorconfig leaves them, and tests/data


def test_the_hooks_before_a_commit_are_the_linters() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    [linters] = re.findall(r"^LINTERS := (.*)$", makefile, re.MULTILINE)
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [hook["id"] for hook in repo["hooks"]] == linters.split()
    assert [hook["entry"] for hook in repo["hooks"]] == [f"make {each}" for each in linters.split()]


def test_the_hooks_before_a_commit_fetch_nothing() -> None:
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repo["repo"] == "local"
    assert {hook["language"] for hook in repo["hooks"]} == {"system"}


def test_every_text_ends_with_a_line_end_and_no_line_with_a_blank() -> None:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    texts = {
        name: (ROOT / name).read_bytes()
        for name in run.stdout.decode().split("\0")
        if not name.startswith("tests/data/")
        and not name.endswith(OTHERS)
        and (ROOT / name).is_file()
    }
    wrong = [
        name
        for name, text in texts.items()
        if text and (not text.endswith(b"\n") or re.search(rb"[ \t\r]\n", text))
    ]
    assert wrong == []


def test_every_page_has_a_place_in_the_site() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert set(re.findall(r"[\w./-]+\.md", str(site["nav"]))) == pages
