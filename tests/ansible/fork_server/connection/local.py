"""Ansible's connection `local`, whose modules are run by the fork server (`../server.py`).

It stands in for Ansible's own by its name, and leaves to it each command that isn't a module for
the controller's Python with the controller's environment and rights.
"""

import importlib.util
import json
import os
import pathlib
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
# What Ansible asks a shell for, to have Python read a module from its standard input.
_MODULE = f"/bin/sh -c '{sys.executable} && sleep 0'"


class Connection(_local.Connection):  # type: ignore[misc]
    """As Ansible's own."""

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a command; returns its exit status, output and errors."""
        if in_data is None or cmd != _MODULE:
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
            request = json.dumps([{**os.environ, "PWD": folder}, folder]).encode()
            files = [program.fileno(), output.fileno(), error.fileno()]
            socket.send_fds(server, [request], files)
            status = server.recv(1)
            if not status:
                raise errors.AnsibleError("a module's process was killed")
            for file in (output, error):
                file.seek(0)
            return status[0], output.read(), error.read()
