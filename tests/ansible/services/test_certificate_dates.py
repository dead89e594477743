"""verify.yml says which certificates end soon; and the extender's for reading agents' metrics."""

import json
import pathlib
import ssl

import pytest

from tests.ansible.rendering import ansible, words
from tests.ansible.services.test_certificates import ROLE, folder, make, pytestmark, run, shaken
from tests.testbed.host_files.certificates import authority

__all__ = ["folder", "pytestmark"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("renew_days", "authority_days", "said"),
    [
        (60, 365, "extender.crt is missing or ends within 30 days"),
        (30, 365, ""),  # the timer may be late by a few days
        (30, 170, "ca.crt is missing or ends within 180 days"),
    ],
)
def test_verify_misses_no_certificate_that_nothing_has_renewed(
    tmp_path: pathlib.Path, renew_days: int, authority_days: int, said: str
) -> None:
    (tmp_path / "scheduler").mkdir()
    run(tmp_path, "make", days=20, renew_days=7, authority_days=authority_days)
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
    assert (done.returncode == 0) == (said == ""), done.stdout
    shown = words(done)
    assert said in shown
    # who renews it: the timer and site.yml, or a change of the authority
    assert ("run rotate.yml, which changes it" in shown) == said.startswith("ca.crt")
    assert ("run site.yml, which renews it" in shown) == said.startswith("extender")


def test_an_agent_lets_the_extender_read(folder: pathlib.Path) -> None:
    make(folder)
    agents = authority("cluster")
    own = agents.server("gpu1", ("192.0.2.1",)).store(folder, "agent")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    server.load_cert_chain(own.certificate, own.key)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cadata=agents.pair.certificate.decode())
    client.load_cert_chain(folder / "reader.crt", folder / "reader.key")
    assert shaken(server, client, "192.0.2.1") == "gpustack-extender-reader"
