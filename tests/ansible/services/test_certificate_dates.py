"""verify.yml says which certificates end soon, and asks for nothing that site.yml doesn't do."""

import json
import pathlib

import pytest

from tests.ansible.rendering import ansible
from tests.ansible.services.test_certificates import ROLE, make, pytestmark

__all__ = ["pytestmark"]


@pytest.mark.long
@pytest.mark.parametrize(("renew_days", "fails"), [(365, True), (7, False)])
def test_verify_misses_no_certificate_that_site_does_not_renew(
    tmp_path: pathlib.Path, renew_days: int, fails: bool
) -> None:
    """Its message says to run site.yml, which renews those with less than `renew_days`."""
    (tmp_path / "scheduler").mkdir()
    make(tmp_path, days=20, renew_days=7)
    told = {
        "__gpustack_extender_pki": str(tmp_path),
        "gpustack_extender_certificate_renew_days": renew_days,
    }
    tasks = [
        {"include_vars": str(ROLE / "defaults/main.yml")},
        {"include_vars": str(ROLE / "vars/main.yml")},
        {"include_tasks": str(ROLE / "tasks/certificate_dates.yml")},
    ]
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = ansible(
        "ansible-playbook",
        "--inventory=localhost,",
        "--connection=local",
        f"--extra-vars={json.dumps(told)}",
        str(tmp_path / "play.yml"),
    )
    assert (done.returncode != 0) == fails, done.stdout
    assert ("ends within 30 days" in " ".join(done.stdout.split())) == fails
