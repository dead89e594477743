"""Runs Ansible's modules, each in a child of one process that has imported what they share.

Most of the processor time of a module is the start of its Python: imports of Ansible's library and
of Kubernetes' client. A child of this process has them. All else a module finds as ever: its own
program, arguments, environment and folder, and of its zip what isn't imported here. Only tests use
it: `start` is called by `rendering.ansible`, and `connection/local.py` sends each module.
"""

import atexit
import functools
import gc
import importlib
import importlib.machinery
import json
import multiprocessing.connection
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Sequence

# What runs each module, which imports what all of them use; and the client of those for clusters.
_SHARED = ("ansible.module_utils._internal._ansiballz._loader", "kubernetes")


@functools.cache
def start(**environment: str) -> str:
    """Start one, which ends with this process; returns the path of its socket.

    Args:
        environment: what Python reads when it starts.
    """
    process = subprocess.Popen(
        [sys.executable, __file__],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the interrupt of a terminal is for the tests
    )
    atexit.register(process.communicate)
    assert process.stdout
    path = process.stdout.readline().rstrip("\n")
    assert path, "the fork server did not start"
    return path


class _Zip(importlib.machinery.PathFinder):
    """Finds in the module's zip, which comes first in `sys.path`, what isn't imported yet."""

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        package = fullname.rpartition(".")[0]
        if package.partition(".")[0] != "ansible":
            return None
        return super().find_spec(fullname, [f"{sys.path[0]}/{package.replace('.', '/')}"], target)


def _run(connection: socket.socket) -> int:
    """Be Python, as it runs a program from its standard input; returns the exit status."""
    request, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    environment, folder = json.loads(request)
    assert "KUBECONFIG" not in environment, "Kubernetes' client reads it when it is imported"
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for wanted, file in enumerate(files):
        os.dup2(file, wanted)
        os.close(file)
    sys.argv[:], sys.path[0] = [""], ""
    sys.meta_path.insert(0, _Zip)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec"), main.__dict__)  # noqa: S102 a module
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # as Python does: whatever it is, it goes to standard error
        traceback.print_exc()
        return 1
    return 0


def _child(connection: socket.socket) -> None:
    atexit._clear()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    status = _run(connection)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    connection.send(bytes([status & 0xFF]))


def main() -> None:
    for name in _SHARED:
        importlib.import_module(name)
    gc.freeze()  # a child's collections leave these pages alone
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the kernel
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
    ):
        listening.bind(f"{folder}/socket")
        listening.listen()
        print(f"{folder}/socket", flush=True)
        while sys.stdin.fileno() not in multiprocessing.connection.wait(
            [listening, sys.stdin.fileno()]
        ):
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    try:
                        _child(connection)
                    finally:
                        os._exit(1)


if __name__ == "__main__":
    main()
