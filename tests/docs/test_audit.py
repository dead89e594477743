"""`make audit` fails where packages have known vulnerabilities, and where nothing was audited."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# As pip-audit answers, which exits with 1 in both cases but the first.
CLEAN = ("", "No known vulnerabilities found", 0)
TABLE = "Name  Version ID            Fix Versions\nflask 0.5     PYSEC-2018-66 0.12.3"
FOUND = (TABLE, "Found 1 known vulnerability in 1 package", 1)
SILENT = ("", "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed", 1)


def write_program(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def audit(
    folder: pathlib.Path, *locks: str, answer: tuple[str, str, int] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it with a pip-audit that answers so; without one, it can't be installed."""
    if answer is not None:
        output, error, status = answer
        lines = [f"echo \"$@\" >'{folder}/arguments'", f"printf %s '{output}'"]
        lines += [f'echo "{error}" >&2', f"exit {status}"]
        write_program(folder / "tools/bin/pip-audit", "\n".join(lines))
        (folder / "tools/.complete").touch()
    write_program(folder / "venv/bin/python", f'exec {sys.executable} "$@"')
    write_program(folder / "venv/bin/uv", "echo 'error: the index is away' >&2; exit 2")
    return subprocess.run(
        [ROOT / "tests/audit.sh", folder / "venv", folder / "tools", *locks],
        text=True,
        capture_output=True,
        check=False,
    )


def test_an_audit_without_findings_passes(tmp_path: pathlib.Path) -> None:
    done = audit(tmp_path, "requirements.lock", answer=CLEAN)
    assert done.returncode == 0, done.stderr
    assert "no known vulnerabilities in requirements.lock" in done.stdout


def test_an_audit_with_findings_shows_them_and_fails(tmp_path: pathlib.Path) -> None:
    done = audit(tmp_path, "requirements.lock", answer=FOUND)
    assert done.returncode == 1
    assert TABLE in done.stdout
    assert "SKIPPED" not in done.stdout + done.stderr


def test_an_audit_that_no_database_answers_is_skipped_and_fails(tmp_path: pathlib.Path) -> None:
    done = audit(tmp_path, "requirements.lock", answer=SILENT)
    assert done.returncode == 1
    assert "audit: SKIPPED, nothing was audited: the database didn't answer" in done.stderr
    assert "Could not connect to PyPI" in done.stderr
    assert "no known vulnerabilities" not in done.stdout


def test_an_audit_without_its_program_is_skipped_and_fails(tmp_path: pathlib.Path) -> None:
    done = audit(tmp_path, "requirements.lock")
    assert done.returncode == 1
    assert "audit: SKIPPED, nothing was audited: pip-audit can't be installed" in done.stderr
    assert "the index is away" in done.stderr
    assert not (tmp_path / "tools/.complete").exists()


def test_an_audit_reads_every_lock_and_skips_no_package(tmp_path: pathlib.Path) -> None:
    locks = sorted(path.name for path in ROOT.glob("*.lock"))
    audit(tmp_path, *locks, answer=CLEAN)
    arguments = (tmp_path / "arguments").read_text().split()
    assert "--strict" in arguments
    assert [each for each in arguments if each.startswith("--requirement=")] == [
        f"--requirement={lock}" for lock in locks
    ]


@pytest.mark.parametrize(("target", "audits"), [("audit", True), ("test", False)])
def test_the_audit_is_a_target_of_its_own(target: str, audits: bool) -> None:
    command = ["make", "--dry-run", "--no-print-directory", target]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    assert ("tests/audit.sh" in done.stdout) is audits
    assert not audits or "requirements*.lock" in done.stdout
