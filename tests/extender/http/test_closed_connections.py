"""What a connection holds is freed when it is closed, not when Python looks for garbage."""

from pathlib import Path

import pytest

from tests.extender.client import eventually
from tests.extender.http.test_connection_turns import secured
from tests.extender.http.test_slow import post
from tests.extender.process import process
from tests.fakes.kube_api import FakeKubeApi

pytestmark = pytest.mark.long

MANY = 12
BODY_BYTES = 15 << 20
KEPT_BYTES = MANY * BODY_BYTES // 3


def resident_bytes(pid: int) -> int:
    said = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2]
    return int(said.split()[0]) << 10


@pytest.mark.parametrize("tls", [True, False])
def test_a_request_that_breaks_off_keeps_no_body(tmp_path: Path, tls: bool) -> None:
    """As of a scheduler whose httpTimeout ends while it sends its nodes in full."""
    values, context = secured(tmp_path) if tls else ({}, None)
    large = post(b"x" * BODY_BYTES)
    with FakeKubeApi() as api, process(api, tmp_path, **values) as served:
        before = resident_bytes(served.worker)
        for _ in range(MANY):
            with served.connect() as plain:
                if context is None:
                    plain.sendall(large[:-1])
                else:
                    with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
                        client.sendall(large[:-1])
        eventually(
            lambda: resident_bytes(served.worker) < before + KEPT_BYTES,
            lambda: f"{resident_bytes(served.worker) >> 20} MiB after {before >> 20} MiB",
        )
        assert served.call("GET", "/healthz").status == 200
