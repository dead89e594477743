"""Ansible's connection `local`, whose modules are run by the fork server (`../server.py`).

It stands in for Ansible's own by its name, and leaves to it each command that isn't a module for
the controller's Python with the controller's rights.
"""

import importlib.util
import json
import os
import pathlib
import re
import shlex
import socket
import sys
import tempfile
from typing import Any

from ansible import errors  # type: ignore[import-untyped]
from ansible.plugins import connection  # type: ignore[import-untyped]

# Ansible takes a plugin's options from here; those of its own `local`.
DOCUMENTATION = """
    name: local
    short_description: modules by the fork server
    description: [Runs commands on the controller.]
    options:
        become_success_timeout:
            description: [Seconds until privileges are there.]
            type: int
            default: 10
            vars: [{name: ansible_local_become_success_timeout}]
        become_strip_preamble:
            description: [Whether the output begins after the words of become.]
            type: bool
            default: true
            vars: [{name: ansible_local_become_strip_preamble}]
    extends_documentation_fragment: [connection_pipelining]
"""

_FILE = pathlib.Path(connection.__file__).with_name("local.py")
_SPEC = importlib.util.spec_from_file_location("ansible_local", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
_local: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_local)
# How Ansible has a shell start a module, which comes by Python's standard input.
_SHELL, _PYTHON = ["/bin/sh", "-c"], [sys.executable, "&&", "sleep", "0"]
# What a process reads before it runs a module, or at an import that the fork server has done.
_READ_EARLY = re.compile(r"PYTHON|LANG=|LC_|LD_|KUBECONFIG=")


def _environment(command: str) -> dict[str, str] | None:
    """Return the variables that a command sets for a module; None where the server can't run it."""
    *shell, script = shlex.split(command)
    words = shlex.split(script)
    given = words[: -len(_PYTHON)]
    if shell != _SHELL or words != [*given, *_PYTHON]:
        return None
    if not all(re.match(r"[A-Za-z_]\w*=", each) for each in given):
        return None
    if any(_READ_EARLY.match(each) for each in given):
        return None
    return dict(each.split("=", 1) for each in given)


class Connection(_local.Connection):  # type: ignore[misc]
    """As Ansible's own."""

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a command; returns its exit status, output and errors."""
        given = None if in_data is None else _environment(cmd)
        if in_data is None or given is None:
            done: tuple[int, bytes, bytes] = super().exec_command(cmd, in_data, sudoable)
            return done
        self._connect()
        with (
            tempfile.TemporaryFile() as program,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as error,
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server,
        ):
            program.write(in_data)
            program.seek(0)
            server.connect(os.environ["GPUSTACK_FORK_SERVER"])
            folder = os.fsdecode(self.cwd)
            environment = {**os.environ, "PWD": folder, **given}
            request = json.dumps([environment, folder]).encode()
            files = [program.fileno(), output.fileno(), error.fileno()]
            socket.send_fds(server, [request], files)
            status = server.recv(1)
            if not status:
                raise errors.AnsibleError("a module's process was killed")
            for file in (output, error):
                file.seek(0)
            return status[0], output.read(), error.read()
