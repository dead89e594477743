"""What is left of ended pods goes, each for itself: one that can't be freed keeps no other."""

import logging
import pathlib

import pytest

from tests.agent.host import Host, Pod


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def _stick(host: Host, uid: str) -> pathlib.Path:
    """Put something in the place of a pod's folder that can't be removed as a folder is."""
    link = host.state / "containers" / uid
    link.symlink_to(host.root)
    return link


def test_a_folder_that_stays_delays_no_other(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    host.start_agent()
    # They come in any order: that of eight all others come before the first is unlikely.
    stuck = [_stick(host, f"stuck-{number}") for number in range(8)]
    others = [host.state / "containers" / f"other-{number}" for number in range(8)]
    for folder in others:
        (folder / "c0").mkdir(parents=True)
    for _ in range(3):
        host.agent.recovery.free_ended()
    assert not any(folder.exists() for folder in others)
    for link in stuck:
        said = [text for text in caplog.messages if f"pod_uid={link.name}:" in text]
        assert len(said) == 1
        assert str(link) in said[0]
    assert host.agent.recovery.stuck == len(stuck)
    assert host.agent.recovery.failures >= 3 * len(stuck)


def test_a_folder_that_stays_is_tried_again_until_it_goes(host: Host) -> None:
    host.start_agent()
    link = _stick(host, "stuck")
    host.agent.recovery.free_ended()
    assert host.agent.recovery.stuck == 1
    link.unlink()
    link.mkdir()
    host.agent.recovery.free_ended()
    assert not link.exists()
    assert host.agent.recovery.stuck == 0


def test_a_pod_of_which_nobody_can_ask_delays_no_other(host: Host) -> None:
    host.start_agent()
    one, other = host.share("one", 0), host.share("other", 1)
    host.kubelet.admit(one)
    host.kubelet.admit(other)
    refused = host.api.faults.fail("GET", "/pods/one$", status=500, times=10**6)
    for name in ("one", "other"):
        host.api.delete("pods", name)
    host.wait_until(lambda: host.agent.records.get(_uid(other)) is None)
    assert host.agent.records.get(_uid(one)) is not None
    refused.times = 0
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(one)) is None
