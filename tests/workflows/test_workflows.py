"""GitHub's workflows are valid, run what make runs, and take nothing that can change under them."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.ansible import layout
from tests.testbed import paths, progress
from tests.testbed.artifacts import golang

WORKFLOWS = sorted((layout.ROOT / ".github" / "workflows").iterdir())
MODULE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def actionlint() -> pathlib.Path:
    """Build it from its locked Go module; the build is kept by a hash of that."""
    inputs = b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    program = paths.cache("actionlint", hashlib.sha256(inputs).hexdigest()[:16]) / "actionlint"
    with progress.exclusive("actionlint"):
        if not program.exists():
            partial = program.with_name(f".actionlint.{os.getpid()}")
            progress.call(
                [golang.ensure(), "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
                 "-o", partial, "github.com/rhysd/actionlint/cmd/actionlint"],
                log="actionlint-build", directory=MODULE,
                environment={"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off",
                             "GOFLAGS": ""},
            )  # fmt: skip
            partial.rename(program)
    return program


def check(actionlint: pathlib.Path, *files: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Run it with the environment's shellcheck, which looks at each step's script."""
    shellcheck = pathlib.Path(sys.executable).parent / "shellcheck"
    return subprocess.run(
        [actionlint, "-no-color", f"-shellcheck={shellcheck}", "-pyflakes=", *files],
        cwd=layout.ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_actionlint_finds_nothing_in_a_workflow(actionlint: pathlib.Path) -> None:
    done = check(actionlint, *WORKFLOWS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("matrix.minutes", "matrix.hours", 'property "hours" is not defined'),
        ("runs-on: ubuntu-24.04", "runs-on: debian-12", 'label "debian-12" is unknown'),
        ('"$GITHUB_WORKSPACE"', "$GITHUB_WORKSPACE", "shellcheck reported issue"),
    ],
)
def test_actionlint_finds_a_fault(
    actionlint: pathlib.Path, tmp_path: pathlib.Path, right: str, wrong: str, said: str
) -> None:
    text = (layout.ROOT / ".github/workflows/check.yml").read_text("utf-8")
    assert right in text
    (tmp_path / "check.yml").write_text(text.replace(right, wrong))
    done = check(actionlint, tmp_path / "check.yml")
    assert (done.returncode, said in done.stdout) == (1, True), done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_takes_actions_by_their_commit_and_may_only_read(path: pathlib.Path) -> None:
    workflow = layout.load(path)
    assert workflow["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: *(\S+)", path.read_text("utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action), action
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job
        assert not re.search(r"[./]", job["container"]["image"]), "name no registry"


def test_the_workflow_runs_targets_that_make_has() -> None:
    job = layout.load(layout.ROOT / ".github/workflows/check.yml")["jobs"]["check"]
    targets = [each["target"] for each in job["strategy"]["matrix"]["include"]]
    assert targets == ["lint", "unit", "system"]
    makefile = (layout.ROOT / "Makefile").read_text("utf-8")
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
