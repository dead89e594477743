"""The shipped roles have the rights that the extender uses, and no others."""

from tests.extender.apiserver import rights
from tests.extender.calls import bind
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, pod
from tests.extender.quota.test_quota_watch import set_quota


def test_every_right_of_the_roles_is_used(mini: MiniCluster) -> None:
    set_quota(mini, {})
    assert mini.place("decided", 50, 32)["NodeNames"]
    mini.api.hold_watches()
    assert bind(mini, mini.create(pod("unseen", 50, 32)), "gpu1") == ""
    mini.api.release_watches()
    eventually(lambda: bool(mini.api.events()))
    # the timer on its host asks for the account's next token (tests/admission/test_tokens.py)
    by_others = {("serviceaccounts/token", "create")}
    eventually(lambda: rights.granted() == rights.used(mini.api.requests) | by_others)
