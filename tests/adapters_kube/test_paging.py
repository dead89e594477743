"""Lists of objects that take much more room than others."""

import json
from pathlib import Path

import pytest

from gpustack.adapters import kube
from gpustack.adapters.kube import exchange, paging
from tests.adapters_kube.test_exchange import configured, serving
from tests.fakes.kube_api import FakeKubeApi

PODS = "/api/v1/pods"
MOST_BYTES = 100_000


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_ANSWER_BYTES", MOST_BYTES)
    monkeypatch.setattr(paging, "_FEW_BYTES", MOST_BYTES // 4)


def create(api: FakeKubeApi, *, count: int, size_bytes: int, prefix: str) -> list[str]:
    made = [f"{prefix}{at:03}" for at in range(count)]
    for name in made:
        metadata = {"name": name, "annotations": {"a": "x" * size_bytes}}
        api.create("pods", {"metadata": metadata})
    return made


def test_pages_of_large_objects_are_bounded(api: FakeKubeApi, client: kube.KubeClient) -> None:
    small = create(api, count=40, size_bytes=10, prefix="a")
    large = create(api, count=30, size_bytes=30_000, prefix="b")
    huge = create(api, count=2, size_bytes=MOST_BYTES - 1000, prefix="c")
    later = create(api, count=40, size_bytes=10, prefix="d")
    pages = list(client.pages(PODS, {}))
    assert max(sum(map(len, map(bytes, page.items))) for page in pages) < MOST_BYTES
    found = [json.loads(bytes(item))["metadata"]["name"] for page in pages for item in page.items]
    assert found == [*small, *large, *huge, *later]
    assert len(pages[-1].items) > 1, "what is small comes in large pages again"


@pytest.mark.parametrize("form", ["length", "chunks"])
@pytest.mark.parametrize("proxied", [False, True])
def test_a_page_is_not_read_beyond_its_bound(tmp_path: Path, form: str, proxied: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n"
    piece = b"x" * (MOST_BYTES + 1)
    if form == "chunks":
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        piece = b"%x\r\n%s\r\n" % (len(piece), piece)
    body = b'{"metadata": {"resourceVersion": "7"}, "items": [{}]}'
    if form == "length" and not proxied:
        piece = b""  # its head says enough
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with serving([head, piece], [whole]) as (server, _):
        url = f"http://127.0.0.1:{server.port}"
        through = {"proxy-url": url} if proxied else {}
        client = configured(tmp_path, "http://api.example.org" if proxied else url, **through)
        assert [page.version for page in client.pages(PODS, {})] == ["7"]
        assert [b"limit=250" in each for each in server.requests] == [False, True]


def test_an_object_larger_than_any_is_an_error(api: FakeKubeApi, client: kube.KubeClient) -> None:
    create(api, count=1, size_bytes=2 * MOST_BYTES, prefix="a")
    with pytest.raises(kube.KubeUnavailable, match=f"of more than {MOST_BYTES} bytes"):
        list(client.pages(PODS, {}))


@pytest.mark.parametrize("tokens", [b"x", b"xy", b"xyz"])
def test_a_list_whose_pages_lead_to_an_older_one_is_an_error(tmp_path: Path, tokens: bytes) -> None:
    """As through a cache that passes over the query, or over a part of it."""
    pages = []
    for token in tokens * 5:
        body = b'{"metadata": {"resourceVersion": "7", "continue": "%c"}, "items": [{}]}' % token
        pages.append([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)])
    with serving(*pages) as (server, _):
        client = configured(tmp_path, f"http://127.0.0.1:{server.port}")
        with pytest.raises(kube.KubeUnavailable, match="a page of a list leads to an older"):
            list(client.pages(PODS, {}))


@pytest.mark.parametrize("version", [b'""', b'"new"', b"null", b'"%s"' % (b"9" * 5000)])
def test_a_list_without_a_version_that_counts_is_an_error(tmp_path: Path, version: bytes) -> None:
    body = b'{"metadata": {"resourceVersion": %s}, "items": []}' % version
    page = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with serving([page]) as (server, _):
        client = configured(tmp_path, f"http://127.0.0.1:{server.port}")
        with pytest.raises(kube.KubeUnavailable, match="the answer is not the API's"):
            list(client.pages(PODS, {}))
