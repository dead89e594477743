"""Long lists, read in pages of bounded bytes.

A page is in memory as a whole before it is decoded, and any user may write pods that take 9 MB as
JSON (1.5 MB in etcd, of characters that JSON escapes): a thousand of them would end their reader.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gpustack.adapters.kube.errors import KubeUnavailable
from gpustack.adapters.kube.exchange import ResponseTooLargeError
from gpustack.adapters.kube.listing import Page, decode_page

_FEW_BYTES: Final = 12 << 20  # of a page; after a smaller one, more objects are asked for

MOST_ITEMS: Final = 1000
"""Objects of a page: about 10 MB of nodes with their image lists."""
SHRUNK: Final = 4
"""So many times fewer objects are asked for after a page that was too large."""

Ask = Callable[[Mapping[str, str]], bytes]


def read_pages(ask: Ask, most: int = MOST_ITEMS, first: int = MOST_ITEMS) -> Iterator[Page]:
    """Read a list; after a page that was too large, fewer objects are asked for at a time.

    Args:
        ask: gets query parameters; raises ResponseTooLargeError for an answer that is too large.
        most: how many objects are asked for at a time.
        first: how many at first.

    Raises:
        KubeUnavailable: a single object is too large, or a page leads to an earlier one.
    """
    items, following, seen = min(most, first), "", set[str]()
    while True:
        wanted = {"limit": str(items), **({"continue": following} if following else {})}
        try:
            raw = ask(wanted)
        except ResponseTooLargeError:
            if items == 1:
                raise
            items = max(1, items // SHRUNK)
            continue
        if len(raw) < _FEW_BYTES:
            items = min(most, items * 2)
        page = decode_page(raw)
        following = page.following
        if following in seen:
            raise KubeUnavailable(
                "the answer is not the API's: a page of a list leads to an older one"
            )
        seen.add(following)
        yield page
        del raw, page  # not kept while the next one comes
        if not following:
            return
