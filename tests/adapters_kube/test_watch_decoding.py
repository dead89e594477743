"""What a watcher decodes: page by page, and past what can't be decoded."""

from typing import Any

import msgspec

from gpustack.adapters import kube
from tests.adapters_kube.following import Follower, Watch, create_many, pod
from tests.fakes.kube_api import FakeKubeApi
from tests.waiting import wait_until


def test_a_list_is_decoded_page_by_page(api: FakeKubeApi, watch: Watch, follower: Follower) -> None:
    """One page is read ahead, never two: of a long list no more is ever in memory."""
    create_many(api, 2500)
    decoded: list[int] = []

    def pages() -> int:
        return len([r for r in api.asked("GET", "/pods$") if "limit" in r.query])

    def name(raw: msgspec.Raw) -> dict[str, Any]:
        ahead = min(3, len(decoded) // 1000 + 2)
        wait_until(lambda: pages() >= ahead)
        decoded.append(pages())
        return kube.as_json(raw)

    watch(decode=name)
    assert len(follower.next()[1]) == 2500
    assert decoded == [2] * 1000 + [3] * 1500


def test_a_watcher_goes_on_after_an_object_that_can_not_be_decoded(
    api: FakeKubeApi, watch: Watch, follower: Follower
) -> None:
    api.create("pods", pod("good"))
    broken = [True]

    def decode(raw: msgspec.Raw) -> dict[str, Any]:
        if broken:
            raise ValueError("not now")
        return kube.as_json(raw)

    watch(decode=decode)
    wait_until(lambda: len(api.asked("GET", "/pods$")) > 1)
    broken.clear()
    assert follower.next() == ("SYNC", ["good"])
