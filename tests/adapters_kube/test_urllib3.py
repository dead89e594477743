"""What the exchange takes from urllib3 below its documented surface."""

import socket
from multiprocessing.connection import wait
from typing import Any

import urllib3


def test_urllib3_keeps_the_part_that_the_exchange_uses() -> None:
    """A pool hands out a kept connection, and an unconnected one where the server has closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pool = urllib3.HTTPConnectionPool("127.0.0.1", server.getsockname()[1], maxsize=1)
        connection: Any = pool._get_conn()
        assert connection.sock is None
        connection.timeout = 5.0
        connection.connect()
        accepted, _ = server.accept()
        pool._put_conn(connection)
        again: Any = pool._get_conn()
        assert again is connection
        assert again.sock is not None
        assert again.sock.gettimeout() == 5.0
        accepted.close()
        wait([again.sock], 5)
        pool._put_conn(again)
        left: Any = pool._get_conn()
        assert left.sock is None
        pool.close()
