"""The section `metrics` of a configuration: where other machines read metrics, and which may."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpustack.adapters.web.listen_address import split_listen
from gpustack.adapters.web.listener import Listener, Security
from gpustack.adapters.web.readers import Readers
from gpustack.adapters.web.tls import TlsContexts, TlsFiles
from gpustack.adapters.web.token_verdicts import Judge, TokenVerdicts

PATH: Final = "/metrics"
"""What a reader asks for, and what its account must have the right to get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMetrics:
    """What an operator decides.

    Attributes:
        host: IP address to listen on.
        port: TCP port.
        tls: our certificate; clients that show one of its authority may read.
        tokens: clients with a token may read that the API server accepts.
    """

    host: str
    port: int
    tls: TlsFiles
    tokens: bool

    def check(self) -> None:
        """Raise a TlsError where the files can't be used."""
        TlsContexts(self.tls)

    def listener(self, judge: Judge, *, waits: bool = False) -> Listener:
        """Listen, also with files that can't be used yet: a daemon has more to do.

        Args:
            judge: of tokens.
            waits: whether an address that can't be had yet is tried again.

        Raises:
            OSError: the address is taken or not ours; the text names the field.
        """
        contexts = TlsContexts(self.tls, required=False)
        readers = Readers(TokenVerdicts(judge) if self.tokens else None)
        security = Security(contexts, readers)
        try:
            return Listener(address=self.host, port=self.port, security=security, waits=waits)
        except OSError as error:
            text = f"metrics.listen: {self.host}:{self.port}: {error.strerror}"
            raise OSError(error.errno, text) from error


def read(values: Mapping[str, Any] | None) -> tuple[RemoteMetrics | None, list[str]]:
    """Return the section as values, and what is wrong with it.

    Args:
        values: as the schema has checked them; None where the section is left out.
    """
    if values is None:
        return None, []
    host, port, problem = split_listen(values["listen"], tls=True)
    problems = [f"metrics.listen: {values['listen']!r} {problem}"] if problem else []
    tokens, client_ca = values["tokens"], values["client_ca"]
    if client_ca is None and not tokens:
        problems.append("metrics: nobody may read; set client_ca, or tokens to true")
    files = TlsFiles(
        certificate=Path(values["certificate"]),
        key=Path(values["key"]),
        client_ca=None if client_ca is None else Path(client_ca),
        section="metrics",
        client_required=not tokens,
    )
    return RemoteMetrics(host=host, port=port, tls=files, tokens=tokens), problems
