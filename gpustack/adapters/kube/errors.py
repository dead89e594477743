"""Errors between us and the API server.

Two questions decide what a caller does: did the server answer, and what did it say. A server that
refused is a ``KubeError`` (a second request changes nothing, except after a conflict); a request
without an answer is a ``KubeUnavailable``: the server may or may not have carried it out.
"""

from gpustack.model.errors import GpustackError


class KubeConfigError(GpustackError):
    """A kubeconfig file can't be used; the message names the file."""


class KubeConfigMissing(KubeConfigError):
    """There is no kubeconfig file where one was looked for."""


class KubeUnavailable(GpustackError):
    """No answer within the time limit: a write may or may not have happened."""


class KubeTimeout(KubeUnavailable):
    """The server is silent, or its answer has not ended in time."""


class KubeError(GpustackError):
    """The API server answered with an error.

    Attributes:
        status: HTTP status code.
        reason: machine-readable reason of the ``Status`` object (``NotFound``, ``Conflict``, …);
            empty when the body wasn't a ``Status``.
        message: the server's text for people.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"API server answered {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def not_found(self) -> bool:
        """The object (or its parent) does not exist; a proxy's 404 has no reason."""
        return self.status == 404 and self.reason == "NotFound"

    @property
    def conflict(self) -> bool:
        """A precondition (UID, resourceVersion, not yet bound) does not hold any more."""
        return self.status == 409

    @property
    def gone(self) -> bool:
        """The resourceVersion to watch from is older than what the server remembers."""
        return self.status == 410

    @property
    def retryable(self) -> bool:
        """The same request may succeed later: overload or a fault of the server."""
        return self.status == 429 or self.status >= 500
