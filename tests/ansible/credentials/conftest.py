"""A host's tokens, and the API server that renews them."""

import collections.abc
import contextlib
import http.server
import json
import pathlib
import threading

import pytest

from tests.ansible.credentials.host_tokens import Api, HostTokens, given, token


@pytest.fixture
def api() -> collections.abc.Iterator[Api]:
    found = Api(answer=lambda: given(token(72)))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.asked.append((self.path, self.headers["Authorization"], json.loads(body)))
            status, said = found.answer()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            with contextlib.suppress(OSError):  # of a reader that has read enough
                self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """Print no line: pytest's output is for failures."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        found.url = f"http://127.0.0.1:{server.server_port}"
        yield found
        server.shutdown()


@pytest.fixture
def host(tmp_path: pathlib.Path, api: Api) -> HostTokens:
    (tmp_path / "tokens").mkdir()
    return HostTokens(folder=tmp_path / "tokens", server=api.url)
