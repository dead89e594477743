"""Who may read from another machine: a client with a certificate, or one with a token."""

import http
from collections.abc import Sequence
from typing import Final

from gpustack.adapters.web.bearer import bearer_token
from gpustack.adapters.web.exchange import Response, refused
from gpustack.adapters.web.token_verdicts import TokenVerdicts

_TEXTS: Final = {
    http.HTTPStatus.UNAUTHORIZED: "the API server knows nobody of this token",
    http.HTTPStatus.FORBIDDEN: "this token's account may not get /metrics; bind it to a "
    "ClusterRole with nonResourceURLs /metrics, verb get",
    http.HTTPStatus.SERVICE_UNAVAILABLE: "the API server does not say who shows this token; the "
    "log says why",
}


class Readers:
    """Lets in a verified certificate, or a token by its verdict; without verdicts no token."""

    def __init__(self, verdicts: TokenVerdicts | None) -> None:
        self._verdicts = verdicts

    async def refusal(self, certificate: object, authorization: Sequence[str]) -> Response | None:
        """Return why a client may not read; None when it may.

        Args:
            certificate: the verified one of the client; nothing true where it has shown none.
            authorization: the values of the request's headers of that name.
        """
        if certificate:
            return None
        if self._verdicts is None:
            return refused(http.HTTPStatus.UNAUTHORIZED, "show a client certificate")
        token = bearer_token(authorization)
        if token is None:
            text = "show a client certificate, or send one header Authorization: Bearer TOKEN"
            return refused(http.HTTPStatus.UNAUTHORIZED, text)
        status = await self._verdicts.verdict(token)
        return None if status is http.HTTPStatus.OK else refused(status, _TEXTS[status])

    def end(self) -> None:
        """End the threads that ask about tokens."""
        if self._verdicts is not None:
            self._verdicts.end()
