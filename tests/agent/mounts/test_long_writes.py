"""No container waits while another one's file has its inode locked.

A tenant's process that has a ledger's descriptor, by a socket, may write to it for as long as it
likes, also after the ledger's own container has ended. The kernel keeps a removal of the file
waiting meanwhile.
"""

import pathlib
import threading
from collections.abc import Callable

from gpustack.adapters import mapped
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from tests.agent import inode_lock
from tests.agent.mounts.namespace import SHARE, UID, on_a_tmpfs


def _ends_while_written(ledger: pathlib.Path, step: Callable[[], object]) -> bool:
    """Say whether a step comes to its end while a tenant writes to a ledger."""
    thread = threading.Thread(target=step)
    with inode_lock.held(ledger, alone=True):
        thread.start()
        thread.join(5)
        ended = not thread.is_alive()
    thread.join()
    return ended


def test_the_end_of_a_pod_waits_for_no_tenants_write(tmp_path: pathlib.Path) -> None:
    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        assert _ends_while_written(folder / "ledger", lambda: files.remove(UID))
        assert files.pods() == frozenset()
        assert files.held.count == 0

    on_a_tmpfs(tmp_path, body)


def test_a_start_waits_for_no_write_to_a_damaged_ledger(tmp_path: pathlib.Path) -> None:
    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        with (folder / "ledger").open("r+b") as ledger:
            ledger.write(bytes(4096))
        assert _ends_while_written(folder / "ledger", lambda: files.prepare(UID, SHARE, None))
        assert files.differing(UID, SHARE, None) == ()
        assert files.held.count == 3

    on_a_tmpfs(tmp_path, body)


def test_what_systemd_has_kept_keeps_no_unmounted_tmpfs(tmp_path: pathlib.Path) -> None:
    """An agent that has just started was given the descriptors, and has looked at no folder."""

    def body(files: LimitsFiles, folder: pathlib.Path) -> None:
        received = tuple(mapped.open_for_writing(path) for path in folder.iterdir())
        held = files.held = HeldFiles(DescriptorStore(received=received))
        assert held.count == 3
        files.remove(UID)
        held.look(())
        assert held.count == 0

    on_a_tmpfs(tmp_path, body)
