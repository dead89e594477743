"""Verify has the doctor look at a GPU host."""

import json
import pathlib

import pytest

from tests.ansible.rendering import run_role, words

pytestmark = pytest.mark.long


def finding(check: str, level: str) -> dict[str, str]:
    """Return one of the doctor's; schema doctor.json."""
    said = {"subject": "", "found": "is not there", "why": "it matters", "mend": "run site.yml"}
    return {"check": check, "level": level, **said}


@pytest.mark.parametrize(
    ("level", "accepted", "status"),
    [("ok", [], 0), ("warn", [], 0), ("fail", ["hook"], 0), ("fail", ["mounts"], 2)],
)
def test_only_what_fails_and_is_not_accepted_fails_verify(
    tmp_path: pathlib.Path, level: str, accepted: list[str], status: int
) -> None:
    findings = {"findings": [finding("driver", "ok"), finding("hook", level)]}
    done = verify(
        tmp_path, f"cat <<'E'\n{json.dumps(findings)}\nE\nexit {int(level == 'fail')}", accepted
    )
    assert done[0] == status, done[1]
    assert ("hook: is not there (it matters). run site.yml" in done[1]) == (status != 0)


def test_a_release_without_a_doctor_passes_verify(tmp_path: pathlib.Path) -> None:
    status, said = verify(tmp_path, "echo 'invalid choice: doctor' >&2; exit 2", [])
    assert status == 0, said


def verify(folder: pathlib.Path, program: str, accepted: list[str]) -> tuple[int, str]:
    """Run the role's part with a program in the doctor's stead; returns status and words."""
    doctor = folder / "opt/venv/bin/gpustack"
    doctor.parent.mkdir(parents=True)
    doctor.write_text(f"#!/bin/sh\n{program}\n")
    doctor.chmod(0o755)
    variables = {
        "python_service_path": str(folder / "opt"),
        "gpustack_agent_accepted_findings": accepted,
    }
    done = run_role(folder, "gpustack_agent", "verify_doctor", variables)
    return done.returncode, words(done)
