"""The tmpfs of each share, as the agent asks for it and sees it."""

import pathlib
import shutil
from collections.abc import Callable

from gpustack.adapters.mount_helper import MountError, MountHelper


class ShareMounts:
    """Has a tmpfs mounted on the folders of containers.

    Args:
        helper: mounts and unmounts; None where the files lie on the host's disk.
    """

    def __init__(self, helper: MountHelper | None) -> None:
        self._helper = helper

    def renew(self, folder: pathlib.Path, let_go: Callable[[int], None]) -> bool:
        """Mount a new tmpfs on a container's folder, in the old one's place; return whether it is.

        Args:
            folder: `<podUID>/<container>`; nothing of the container runs.
            let_go: closes the files of a file system (`st_dev`), which would keep it for ever.

        Raises:
            MountError: the helper doesn't mount, or not where the agent sees it.
            OSError: a file can't be removed.
        """
        if self._helper is None:
            return False
        _clear(folder, let_go)
        self._helper.make(folder.parent.name, folder.name)
        if not folder.is_mount():
            text = (
                "gpustack-mount has mounted a tmpfs that the agent doesn't see: one of the two"
                " units has a drop-in that gives it other mounts, or / isn't shared"
                " (findmnt --noheadings --output=PROPAGATION /)"
            )
            raise MountError(text)
        return True

    def remove(self, pod: pathlib.Path, let_go: Callable[[int], None]) -> None:
        """Unmount what is mounted on the folders of a pod's containers; `let_go` as in `renew`.

        Raises:
            MountError: something is still mounted.
            OSError: a file can't be removed.
        """
        for folder in pod.iterdir():
            if not folder.is_mount():
                continue
            if self._helper is None:
                raise MountError(f"{folder} is a mount: set mount_socket, or unmount it")
            _clear(folder, let_go)
            self._helper.remove(pod.name, folder.name)


def _clear(folder: pathlib.Path, let_go: Callable[[int], None]) -> None:
    """Let go of what lies in a folder, before it is unmounted; remove what an earlier agent left.

    Files of a tmpfs go with it. Their removal would wait for a write that is under way (vfs_unlink
    in fs/namei.c takes the inode's lock): a tenant chooses how long its write takes, and whose
    process does it, for one of another container may have the descriptor.
    """
    if folder.is_mount():
        let_go(folder.stat().st_dev)
        return
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()
