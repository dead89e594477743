"""Long lists, read in pages of bounded bytes.

A page is in memory as a whole before it is decoded, and any user may write pods that take 9 MB as
JSON (1.5 MB in etcd, of characters that JSON escapes): a thousand of them would end their reader.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gpustack.adapters.kube.exchange import ResponseTooLargeError
from gpustack.adapters.kube.listing import Page, decode_page

_ITEMS: Final = 1000  # about 10 MB of nodes with their image lists
_BYTES: Final = 48 << 20  # an agent may read two lists at once, within its MemoryMax
_SHRUNK: Final = 4

Ask = Callable[[Mapping[str, str], int | None], bytes]


def read_pages(ask: Ask) -> Iterator[Page]:
    """Read a list; after a page that was too large, fewer objects are asked for at a time.

    Args:
        ask: gets query parameters and the most bytes that an answer may have, None for any
            number: a single object is as large as the server lets it be. Raises AnswerTooLargeError
            for a longer answer.
    """
    items, following = _ITEMS, ""
    while True:
        wanted = {"limit": str(items), **({"continue": following} if following else {})}
        try:
            raw = ask(wanted, _BYTES if items > 1 else None)
        except ResponseTooLargeError:
            items = max(1, items // _SHRUNK)
            continue
        if len(raw) * _SHRUNK < _BYTES:
            items = min(_ITEMS, items * 2)
        page = decode_page(raw)
        following = page.following
        yield page
        del raw, page  # not kept while the next one comes
        if not following:
            return
