"""From a context of a kubeconfig to a connection pool.

TCP itself notices a peer that is gone without a FIN (a host without power, a cut network, a
forgotten NAT entry), also on a watch that waits. It doesn't notice a peer whose kernel answers and
whose program doesn't: for that, each call and each watch has its own time limit.

Client certificates named by path are read again for every new TLS connection, so a kubelet's
rotated certificate takes effect without a restart; a token named by path is read before every
request.
"""

import contextlib
import dataclasses
import logging
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import urllib3
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs

from gpustack.adapters.kube.errors import KubeConfigError
from gpustack.adapters.kube.kubeconfig import Context
from gpustack.wire.files import regular_file

if TYPE_CHECKING:
    from kubernetes import client as kube_client

logger = logging.getLogger(__name__)

# The loader looks at few of its values' types.
_BROKEN: Final = (ValueError, TypeError, AttributeError)
_ONLY: Final = "only"
_MOST_TOKEN_BYTES: Final = 1 << 16  # more than a request's headers may have


# TCP gives up a silent peer 20 s after its last packet, with a probe every 5 s: on Linux
# TCP_USER_TIMEOUT takes the place of a count of probes, and bounds unacknowledged data
# as well (tcp(7)). Without them it would take two hours, or a quarter of one.
_IDLE_SECONDS: Final = 10
_PROBE_SECONDS: Final = 5
_DEAD_SECONDS: Final = 20
_SOCKET_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),  # urllib3's own default, which this replaces
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_SECONDS * 1000),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """How to reach an API server without a proxy.

    Attributes:
        pool: its connections.
        host: its name and port, as a request has them.
        prefix: the part of its URL before every path of the API; mostly empty.
    """

    pool: urllib3.HTTPConnectionPool
    host: str
    prefix: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApiConnection:
    """How to reach one API server.

    Attributes:
        server: base URL without a trailing slash.
        pool: connections, with TLS already configured.
        authorization: gives the headers that prove our identity; empty for client certificates.
        direct: the connection without a proxy; None where a proxy stands before the server.
    """

    server: str
    pool: urllib3.PoolManager
    authorization: Callable[[], Mapping[str, str]]
    direct: Direct | None = None


def open_context(context: Context) -> ApiConnection:
    """Prepare a context of a kubeconfig; no request is made.

    Raises:
        KubeConfigError: its certificates, its token or its plugin can't be used.
    """
    # Here, because it is the slowest of what the programs load, and a command that asks this host
    # alone reaches no API server.
    from kubernetes import client as kube_client  # noqa: PLC0415
    from kubernetes import config as kube_config  # noqa: PLC0415

    settings = kube_client.Configuration()
    # Watches and calls share the pool; beyond this, connections are opened and thrown away.
    settings.connection_pool_maxsize = 32
    place = f"kubeconfig {context.origin}: context {context.name}"
    settings.socket_options = list(_SOCKET_OPTIONS)
    try:
        with _logged() as told:
            kube_config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
                _alone(context), client_configuration=settings, persist_config=False
            )
        pool = kube_client.ApiClient(configuration=settings).rest_client.pool_manager
    except (kube_config.ConfigException, *_BROKEN, OSError) as error:
        raise KubeConfigError(f"{place}: {error}") from error
    _check_plugin(place, context, settings, told)

    named = context.user.get("tokenFile")
    token_file = _TokenFile(named, place) if named else None

    def authorization() -> Mapping[str, str]:
        # The loader reads it once; where both stand, kubectl too takes the file's.
        key: str | None = token_file.header() if token_file else None
        key = key or settings.get_api_key_with_prefix("authorization", "BearerToken")
        if not key and settings.username:
            key = settings.get_basic_auth_token()
        if key and not (key.isascii() and key.isprintable()):
            raise KubeConfigError(
                f"{place}: its user's token has a character that no request can have, such as a"
                " line end"
            )
        return {"authorization": key} if key else {}

    authorization()
    server = settings.host.rstrip("/")
    _accept_plain_certificates(pool)
    return ApiConnection(
        server=server,
        pool=pool,
        authorization=authorization,
        direct=_direct(server, pool) if pool.proxy is None else None,
    )


class _TokenFile:
    """A token that somebody else renews: a kubelet, or a timer."""

    def __init__(self, path: str, place: str) -> None:
        self._path, self._place = Path(path), place
        self._lock = threading.Lock()
        self._header = self._problem = ""

    def header(self) -> str:
        """Return the newest token as a header; a file without one keeps the token before."""
        with self._lock:
            try:
                content = regular_file.read_named(self._path, max_bytes=_MOST_TOKEN_BYTES)
                token = content.decode("ascii").strip()
                problem = "" if token.isprintable() else "has a line end, or no token's character"
                problem = problem if token else "is empty"
            except (OSError, ValueError) as error:
                token = ""
                problem = getattr(error, "strerror", None) or " ".join(str(error).split())
            if problem and problem != self._problem:  # once, and not for every request
                logger.error(
                    "%s: tokenFile %s: %s; keeping the token before",
                    self._place, self._path, problem,
                )  # fmt: skip
            self._problem = problem
            if not problem:
                self._header = f"Bearer {token}"
            return self._header


def _accept_plain_certificates(manager: urllib3.PoolManager) -> None:
    """Accept what kubectl accepts: a certificate that doesn't name its authority's key.

    Clusters of some years ago have such ones, and Python refuses them from 3.13 on
    (https://github.com/kubernetes-client/python/issues/2394).
    """
    pool: Any = manager.pool_classes_by_scheme["https"]
    connection: Any = pool.ConnectionCls

    class Connection(connection):  # type: ignore[misc]  # it depends on the proxy
        def connect(self) -> None:
            # Each connection has a context of its own: it reads the files of certificates anew.
            self.ssl_context = create_urllib3_context(
                cert_reqs=resolve_cert_reqs(self.cert_reqs), verify_flags=0
            )
            if not (self.ca_certs or self.ca_cert_data):
                self.ssl_context.load_default_certs()
            super().connect()

    manager.pool_classes_by_scheme = {
        **manager.pool_classes_by_scheme,
        "https": type("Pool", (pool,), {"ConnectionCls": Connection}),
    }


def _direct(server: str, pool: urllib3.PoolManager) -> Direct:
    url = urllib3.util.parse_url(server)
    return Direct(
        pool=pool.connection_from_url(server), host=url.netloc or "", prefix=url.path or ""
    )


def _alone(context: Context) -> dict[str, Any]:
    """Return a kubeconfig of this context alone, with the fields that the loader takes."""
    names = {"cluster": _ONLY, "user": _ONLY}
    return {
        "current-context": _ONLY,
        "contexts": [{"name": _ONLY, "context": names}],
        "clusters": [{"name": _ONLY, "cluster": dict(context.cluster)}],
        "users": [{"name": _ONLY, "user": dict(context.user)}],
    }


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect the errors that the loader logs before it continues without an identity."""
    told: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        ours = record.module != "kube_config"
        if not ours:
            told.append(" ".join(record.getMessage().split()))
        return ours

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield told
    finally:
        root.removeFilter(keep)


def _check_plugin(
    place: str, context: Context, settings: "kube_client.Configuration", told: list[str]
) -> None:
    """Refuse a plugin that gave no identity: requests would be anonymous."""
    plugin = next((name for name in ("exec", "auth-provider") if name in context.user), None)
    if plugin is None or settings.api_key or settings.cert_file:
        return
    command = str(context.user[plugin].get("command") or context.user[plugin].get("name"))
    hint = str(context.user[plugin].get("installHint") or "")
    if plugin == "exec" and shutil.which(command) is None:
        why = " ".join(["there is no such program;", *hint.split()]).removesuffix(";")
    elif sys.stdout.isatty():  # a plugin speaks for itself there
        why = "its own message stands above"
    else:
        why = "; ".join(told) or "it says nothing"
    raise KubeConfigError(f"{place}: {plugin} {command} gives no credentials: {why}")
