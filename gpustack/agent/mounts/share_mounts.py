"""The tmpfs of each share, as the agent asks for it and sees it."""

import pathlib
import shutil

from gpustack.adapters.mount_helper import MountError, MountHelper


class ShareMounts:
    """Has a tmpfs mounted on the folders of containers.

    Args:
        helper: mounts and unmounts; None where the files lie on the host's disk.
    """

    def __init__(self, helper: MountHelper | None) -> None:
        self._helper = helper

    def renew(self, folder: pathlib.Path) -> bool:
        """Empty a container's folder, and mount a new tmpfs there; return whether it is one.

        Args:
            folder: `<podUID>/<container>`; nothing of the container runs.

        Raises:
            MountError: the helper doesn't mount, or not where the agent sees it.
            OSError: a file can't be removed.
        """
        if self._helper is None:
            return False
        _empty(folder)
        self._helper.make(folder.parent.name, folder.name)
        if not folder.is_mount():
            text = (
                "gpustack-mount has mounted a tmpfs that the agent doesn't see: one of the two"
                " units has a drop-in that gives it other mounts, or / isn't shared"
                " (findmnt --noheadings --output=PROPAGATION /)"
            )
            raise MountError(text)
        return True

    def remove(self, pod: pathlib.Path) -> None:
        """Unmount what is mounted on the folders of a pod's containers.

        Raises:
            MountError: something is still mounted.
            OSError: a file can't be removed.
        """
        for folder in pod.iterdir():
            if not folder.is_mount():
                continue
            if self._helper is None:
                raise MountError(f"{folder} is a mount: set mount_socket, or unmount it")
            _empty(folder)
            self._helper.remove(pod.name, folder.name)


def _empty(folder: pathlib.Path) -> None:
    """Remove what lies in a folder: who holds a file open lets go of it once it is removed."""
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()
