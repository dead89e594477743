"""The least that an extender can cost: ``least_extender/main.go``, which decides nothing.

Its figures stand beside ours: both hold the scheduler's own part of three questions a pod, each
with every node's name in it.
"""

import contextlib
import pathlib
import urllib.error
import urllib.request
from collections.abc import Iterator

from tests.control_plane import extending, plane
from tests.control_plane.processes import free_port, running
from tests.testbed import progress
from tests.testbed.artifacts import golang

_SOURCE = pathlib.Path(__file__).parent / "least_extender"


@contextlib.contextmanager
def start(control: plane.ControlPlane) -> Iterator[extending.RunningExtender]:
    """Run the program as long as the block does, built with the Go that builds Kubernetes.

    Raises:
        BenchError: no Go tool chain, or it did not build.
    """
    program, port = control.folder / "least", free_port()
    progress.call(
        [golang.ensure(), "build", "-trimpath", "-buildvcs=false", "-o", program, "."],
        log="bench-build-least",
        directory=_SOURCE,
        environment={"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""},
    )
    authority = control.folder / "least-authority.crt"
    authority.write_bytes(control.authority.pair.certificate)
    command: list[str | pathlib.Path] = [
        program,
        f"-listen=127.0.0.1:{port}",
        f"-server={control.server}",
        f"-certificate={control.folder / 'admin.crt'}",
        f"-key={control.folder / 'admin.key'}",
        f"-authority={authority}",
    ]
    with running(command, control.folder / "least.log") as process:
        process.wait_until(lambda: _listens(port))
        yield extending.RunningExtender(process=process, port=port, tls=None)


def _listens(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError:
        return True  # the program has no such page, but it answers
    except OSError:
        return False
    return True
