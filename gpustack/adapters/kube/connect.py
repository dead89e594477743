"""From a kubeconfig file to a connection pool.

Client certificates named by path are read again for every new TLS connection, so a kubelet's
rotated certificate is picked up without a restart; tokens are asked for before every request.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import urllib3
import yaml
from kubernetes import client as kube_client
from kubernetes import config as kube_config

from gpustack.adapters.kube.errors import KubeConfigError

# The loader looks at few of its values' types.
_BROKEN: Final = (kube_config.ConfigException, ValueError, TypeError, AttributeError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """How to reach an API server that no proxy stands before.

    Attributes:
        pool: its connections.
        host: its name and port, as a request has them.
        prefix: the part of its URL before every path of the API; mostly empty.
    """

    pool: urllib3.HTTPConnectionPool
    host: str
    prefix: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach one API server.

    Attributes:
        server: base URL without a trailing slash.
        pool: connections, with TLS already configured.
        authorization: gives the headers that prove who we are; empty for client certificates.
        direct: the shorter way; None where a proxy stands before the server.
    """

    server: str
    pool: urllib3.PoolManager
    authorization: Callable[[], Mapping[str, str]]
    direct: Direct | None = None


def open_kubeconfig(path: Path) -> Connection:
    """Read a kubeconfig and prepare its current context; no request is made.

    Raises:
        KubeConfigError: the file is missing, unreadable or not a usable kubeconfig.
    """
    settings = kube_client.Configuration()
    # Watches and calls share the pool; beyond this, connections are opened and thrown away.
    settings.connection_pool_maxsize = 32
    try:
        path.open("rb").close()  # the loader calls a missing file an invalid one
        kube_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(path), client_configuration=settings, persist_config=False
        )
        _check_server(settings.host)
        api = kube_client.ApiClient(configuration=settings)
    except (*_BROKEN, yaml.YAMLError, OSError) as error:
        raise KubeConfigError(f"kubeconfig {path}: {error}") from error

    def authorization() -> Mapping[str, str]:
        key = settings.get_api_key_with_prefix("authorization", "BearerToken")
        if key:
            return {"authorization": key}
        basic = settings.get_basic_auth_token() if settings.username else None
        return {"authorization": basic} if basic else {}

    server, pool = settings.host.rstrip("/"), api.rest_client.pool_manager
    return Connection(
        server=server,
        pool=pool,
        authorization=authorization,
        direct=_direct(server, pool) if pool.proxy is None else None,
    )


def _direct(server: str, pool: urllib3.PoolManager) -> Direct:
    url = urllib3.util.parse_url(server)
    return Direct(
        pool=pool.connection_from_url(server), host=url.netloc or "", prefix=url.path or ""
    )


def _check_server(server: str) -> None:
    """Refuse what no request could be sent to: it would look like a server that is down.

    Raises:
        ValueError: it is no server's URL.
    """
    try:
        url = urllib3.util.parse_url(server)
        usable = url.scheme in (None, "http", "https") and bool(url.host)
    except urllib3.exceptions.LocationParseError:
        usable = False
    if not usable:
        raise ValueError(f"the cluster's server is {server!r}; write it as https://HOST:6443")
