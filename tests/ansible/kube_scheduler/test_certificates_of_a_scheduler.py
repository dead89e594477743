"""New authorities restart a scheduler, which reads them only then; a new certificate doesn't."""

from typing import Any

import pytest

from tests.ansible.kube_scheduler.scheduler_host import GOOD, Make
from tests.ansible.rendering import words

pytestmark = [pytest.mark.long, pytest.mark.nightly]


@pytest.mark.parametrize("kind", ["unit", "static_pod"])
def test_only_other_authorities_restart_it(make: Make, kind: str) -> None:
    host = make(kind)
    pki = host.folder / "pki"
    pki.mkdir()
    said: dict[str, Any] = {
        "kube_scheduler_extender_url": GOOD,
        "kube_scheduler_tls": True,
        "kube_scheduler_certificates": str(pki),
    }
    (pki / "ca.crt").write_text("one")
    (pki / "client.crt").write_text("one")
    first = host.play(**said)
    assert first.returncode == 0, first.stdout
    pid = host.pid
    (pki / "client.crt").write_text("two")
    renewed = host.play(**said)
    assert (renewed.returncode, host.pid) == (0, pid)
    assert "changed=0" in renewed.stdout
    (pki / "ca.crt").write_text("one and two")
    verified = host.play("verify", **said)
    assert f"{pki}/ca.crt was changed since kube-scheduler was started" in words(verified)
    changed = host.play(**said)
    assert changed.returncode == 0, changed.stdout
    assert host.pid != pid
    assert host.answers()
    assert host.play("verify", **said).returncode == 0
