"""A scheduler's program tries a configuration before the role puts it in place."""

import pytest

from tests.ansible.kube_scheduler.scheduler_host import FOUND, GOOD, MANIFEST, REFUSED, Make
from tests.ansible.rendering import words

pytestmark = pytest.mark.long


def test_what_its_trial_refuses_is_never_put_in_place(make: Make) -> None:
    host = make("unit")
    pid = host.pid
    for options in ((), ("--check",)):
        done = host.play("main", *options, kube_scheduler_extender_url=REFUSED)
        assert done.returncode != 0
        assert "Nothing was changed: it runs on" in words(done), done.stdout
        assert "strict decoding error" in words(done)
        assert (host.config.read_text(), host.pid) == (FOUND, pid)


@pytest.mark.nightly
def test_a_trial_that_refuses_the_present_file_too_says_nothing(make: Make) -> None:
    host = make("unit")
    host.config.write_text(f"{FOUND}clientConnection: {{kubeconfig: /elsewhere}}\n")
    done = host.play(kube_scheduler_extender_url=REFUSED)
    assert done.returncode == 0, done.stdout
    assert "the trial of the present one fails, too: no such file" in words(done)
    assert host.urls == [REFUSED]


@pytest.mark.nightly
def test_a_static_pod_that_runs_no_scheduler_is_told_without_a_trial(make: Make) -> None:
    host = make("static_pod")  # its process is a script's, with another command line
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    said = f"no static pod of root runs a kube-scheduler with the command line of {host.manifest}"
    assert said in words(done)
    assert host.manifest.read_text() != MANIFEST
