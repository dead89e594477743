"""Long answers of the API server, part by part: the pages of a list, the lines of a watch."""

import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Final

import urllib3

from gpustack.adapters.kube.errors import KubeUnavailable
from gpustack.adapters.kube.listing import Page

# Of one change: more than any object of the API server has as JSON (``paging``).
_LINE_BYTES: Final = 48 << 20


def one_ahead(pages: Iterator[Page]) -> Iterator[Page]:
    """Read the next page while the caller decodes one: in a long list each takes as long."""
    page = next(pages)
    if not page.following:
        yield page
        return
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="pages") as reader:
        while page.following:
            coming = reader.submit(next, pages)
            yield page
            try:
                page = coming.result()
            finally:
                del coming  # an error in it refers to this frame, and would stay with all pages
        yield page


def lines_of(
    response: urllib3.BaseHTTPResponse, check_silence: Callable[[], None]
) -> Iterator[bytes]:
    """Split a stream of chunks into its lines; the server writes one event a line."""
    pending = bytearray()  # of a line of megabytes, which is looked through once
    while chunk := response.read1(1 << 16):  # as it comes, also where an answer isn't chunked
        check_silence()
        first, *others = chunk.split(b"\n")
        pending += first
        if len(pending) > _LINE_BYTES:
            raise KubeUnavailable(f"a change of more than {_LINE_BYTES} bytes")
        if others:
            *lines, rest = (bytes(pending), *others)
            pending = bytearray(rest)
            yield from (line for line in lines if line)
