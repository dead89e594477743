"""TLS on a client's socket, of which one call takes a bounded number of records.

An ``ssl.SSLSocket`` shakes hands for as long as something comes: a message of 100 KB in records of
one byte holds its reader for 200 ms, and asks for no certificate. Here every record is counted,
and the client's certificates are looked at before they are decoded (``client_certificates``).
"""

import contextlib
import socket
import ssl
from typing import Any, Final

from gpustack.adapters.web.client_certificates import ClientMessages
from gpustack.adapters.web.tls import TlsContext

_HEAD_BYTES: Final = 5  # type, version and length of a record (RFC 8446, 5.1)
# In one call. A handshake is made of ten, and nearly each that follows brings bytes of a request.
_RECORDS: Final = 16
# Types of records.
_CHANGE_CIPHER_SPEC: Final = 20
_HANDSHAKE: Final = 22
# In the first byte of a hello of SSL 2, which OpenSSL reads still, and whose length stands before
# its type: what else a client sends would be taken for a part of it, and not looked at.
_SSL_2: Final = 0x80
# What a client is told whose certificates OpenSSL doesn't get (RFC 5246, 7.2: fatal, unknown_ca).
_UNKNOWN_AUTHORITY: Final = b"\x15\x03\x03\0\x02\x02\x30"


class TlsSocket:
    """Stands for a connected socket that doesn't block, as its server side.

    Everything else than what is defined here is the socket's own.
    """

    def __init__(self, sock: socket.socket, context: TlsContext) -> None:
        self._sock = sock
        self._received, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.openssl.wrap_bio(self._received, self._written, server_side=True)
        self._messages = ClientMessages(context.authorities)
        self._head = b""  # of a record, as far as it has come
        self._body = b""
        self._unsent = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    @property
    def unsent_bytes(self) -> int:
        """How much is encrypted, and has not gone."""
        return len(self._unsent)

    def getpeercert(self) -> Any:
        """Return the verified certificate of the client, as ``ssl.SSLSocket`` does."""
        return self._tls.getpeercert()

    def pending(self) -> int:
        """Return how much is decrypted, and has not been taken."""
        return self._tls.pending()

    def do_handshake(self) -> None:
        """Shake hands, as far as it goes.

        Raises:
            ssl.SSLWantReadError, ssl.SSLWantWriteError: what to wait for.
            OSError: it has failed.
        """
        blocked = False
        for taken in range(_RECORDS + 1):  # the last one taken is looked at, too: none may follow
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                if blocked or taken == _RECORDS:
                    break
                try:
                    self._take_record()
                except BlockingIOError:
                    blocked = True  # what has come of a record may be no record
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self.flush()  # which says why
                raise
            else:
                self.flush()
                return
        raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the handshake goes on")

    def recv(self, size: int) -> bytes:
        """Return what has come; b"" at the end.

        Raises:
            OSError: nothing has come, or the connection is broken.
        """
        for _ in range(_RECORDS):
            if not self._tls.pending() and not self._take_record():
                return b""
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                self.flush()
            except ssl.SSLZeroReturnError:
                return b""
        raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "no record had anything in it")

    def send(self, data: bytes | memoryview) -> int:
        """Encrypt and send, the beginning at least; ``flush`` sends what is left of that.

        Raises:
            ssl.SSLWantWriteError: the client takes nothing now.
        """
        self.flush()
        sent = self._tls.write(data)
        with contextlib.suppress(ssl.SSLWantWriteError):
            self.flush()
        return sent

    def flush(self) -> None:
        """Send what is encrypted.

        Raises:
            ssl.SSLWantWriteError: the client doesn't take all of it now.
        """
        self._unsent += self._written.read()
        while self._unsent:
            try:
                sent = self._sock.send(self._unsent)
            except BlockingIOError:
                raise ssl.SSLWantWriteError(ssl.SSL_ERROR_WANT_WRITE, "unsent") from None
            self._unsent = self._unsent[sent:]

    def _take_record(self) -> bool:
        """Receive what has come of one record, and nothing after it; False at the end.

        Raises:
            OSError: not all of it has come, the library must not get it, or the connection is
                broken.
        """
        while (missing := self._missing_bytes()) > 0:
            if not (data := self._sock.recv(missing)):
                self._received.write_eof()
                return False
            if len(self._head) < _HEAD_BYTES:
                self._head += data
                if self._head[0] & _SSL_2:
                    raise ssl.SSLError(ssl.SSL_ERROR_SSL, "a hello of SSL 2, or no TLS")
                self._received.write(data)  # at once: it may be no record
            else:
                self._body += data
        kind, body = self._head[0], self._body
        self._head = self._body = b""
        if kind == _HANDSHAKE:
            self._look(body)
        elif kind == _CHANGE_CIPHER_SPEC and body:  # the library passes over an empty one
            self._messages.end()
        self._received.write(body)
        return True

    def _look(self, body: bytes) -> None:
        try:
            self._messages.take(body)
        except ssl.SSLCertVerificationError:
            self._written.write(_UNKNOWN_AUTHORITY)
            with contextlib.suppress(OSError):
                self.flush()
            raise

    def _missing_bytes(self) -> int:
        """Return how much is to come, of the record's head at first."""
        if len(self._head) < _HEAD_BYTES:
            return _HEAD_BYTES - len(self._head)
        return int.from_bytes(self._head[3:]) - len(self._body)
