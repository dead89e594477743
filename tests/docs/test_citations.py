"""A file cites files of the repository: its reader has no others."""

import pathlib
import re
import subprocess
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = {".bin", ".png", ".sum", ".lock"}
DOCUMENT = re.compile(r"(?<![\w.])((?:\.\./)*/?(?:[\w-]+/)*[\w-]+\.md)\b")
# folders beside the repository, and files of users that it doesn't ship
ELSEWHERE = re.compile(
    r"\bshared/(?:contracts|architecture|style|testbench|vocabulary|reference|seeds)"
    r"|\b(?:the|first|second|third|fourth) (?:seeds\b|seed's)|\bseeds'"
)
NOT_HERE = {
    "roles/ROLE/README.md",  # any role's
    "RELEASE-NOTES.md",  # what `make release` writes
    "CycloneDX/cyclonedx-property-taxonomy/blob/main/cdx/device.md",  # in CycloneDX's own schema
}
# another project's is named with it
ISSUE = re.compile(r"(?<!\S)(\S*)\s+issue #?\d+", re.IGNORECASE)


def tracked() -> list[str]:
    run = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    return [name for name in run.stdout.decode().split("\0") if (ROOT / name).is_file()]


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text of the repository by its path, this one apart."""
    for name in tracked():
        path = ROOT / name
        if path.suffix not in BINARY and path != pathlib.Path(__file__).resolve():
            yield name, path.read_text("utf-8")


def test_a_document_that_a_file_cites_is_in_the_repository() -> None:
    known = [f"/{name}" for name in tracked() if name.endswith(".md")]
    missing = {
        f"{name}: {cited}"
        for name, text in texts()
        for cited in DOCUMENT.findall(text)
        if cited not in NOT_HERE
        and not any(each.endswith("/" + re.sub(r"^(\.\./)*/?", "", cited)) for each in known)
    }
    assert missing == set()


def test_a_file_cites_nothing_that_lies_beside_the_repository() -> None:
    found = {f"{name}: {each[0]}" for name, text in texts() for each in ELSEWHERE.finditer(text)}
    assert found == set()


def test_an_issue_is_cited_with_its_project() -> None:
    found = {
        f"{name}: {each[0]}"
        for name, text in texts()
        for each in ISSUE.finditer(text)
        if "/" not in each[1]
    }
    assert found == set()
