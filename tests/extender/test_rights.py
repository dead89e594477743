"""The rights that we ask a cluster for are the ones that we use."""

import json

from tests.extender import rights
from tests.extender.bench import Bench, eventually, pod
from tests.extender.test_quota_watch import set_quota


def test_every_right_that_we_ask_for_is_used(bench: Bench) -> None:
    set_quota(bench, {})
    assert bench.place("decided", 50, 32)["NodeNames"]
    bench.api.hold_watches()
    unseen = bench.create(pod("unseen", 50, 32))
    body = {
        "PodName": "unseen",
        "PodNamespace": "default",
        "PodUID": unseen["metadata"]["uid"],
        "Node": "gpu1",
    }
    answer = bench.call("POST", "/scheduler/bind", json.dumps(body).encode())
    assert answer.body["Error"] == ""
    bench.api.release_watches()
    eventually(lambda: bool(bench.api.events()))
    eventually(lambda: rights.granted() == rights.used(bench.api.requests))
