"""The rights that we ask a cluster for are the ones that we use."""

from tests.extender import rights
from tests.extender.calls import bind
from tests.extender.client import eventually
from tests.extender.mini_cluster import Bench, pod
from tests.extender.test_quota_watch import set_quota


def test_every_right_that_we_ask_for_is_used(bench: Bench) -> None:
    set_quota(bench, {})
    assert bench.place("decided", 50, 32)["NodeNames"]
    bench.api.hold_watches()
    assert bind(bench, bench.create(pod("unseen", 50, 32)), "gpu1") == ""
    bench.api.release_watches()
    eventually(lambda: bool(bench.api.events()))
    eventually(lambda: rights.granted() == rights.used(bench.api.requests))
