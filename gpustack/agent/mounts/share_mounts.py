"""The tmpfs of each share, as the agent asks for it and sees it."""

import pathlib
from collections.abc import Callable

from gpustack.adapters.mount_helper import MountError, MountHelper
from gpustack.agent.mounts.old_folders import OldFolders


class ShareMounts:
    """Has a tmpfs mounted on the folders of containers.

    Args:
        helper: mounts and unmounts; None where the files lie on the host's disk.
    """

    def __init__(self, helper: MountHelper | None) -> None:
        self._helper = helper
        self._old = OldFolders()

    def renew(self, folder: pathlib.Path, let_go: Callable[[int], None]) -> None:
        """Put an empty folder in a container's folder's place; it is a new tmpfs, with a helper.

        Files of a tmpfs go with it, once none has them open. No call waits for a tenant's write.

        Args:
            folder: `<podUID>/<container>`; nothing of the container runs.
            let_go: closes the files of a file system (`st_dev`), which would keep it for ever.

        Raises:
            MountError: the helper doesn't mount, or not where the agent sees it.
            OSError: the old folder can't be replaced.
        """
        if folder.is_mount():
            let_go(folder.stat().st_dev)
        elif any(folder.iterdir()):
            self._old.replace(folder)
        if self._helper is None:
            return
        self._helper.make(folder.parent.name, folder.name)
        if not folder.is_mount():
            text = (
                "gpustack-mount has mounted a tmpfs that the agent doesn't see: one of the two"
                " units has a drop-in that gives it other mounts, or / isn't shared"
                " (findmnt --noheadings --output=PROPAGATION /)"
            )
            raise MountError(text)

    def remove(self, pod: pathlib.Path, let_go: Callable[[int], None]) -> None:
        """Unmount what is mounted on the folders of a pod's containers; `let_go` as in `renew`.

        Raises:
            MountError: something is still mounted.
            OSError: the folder can't be read.
        """
        for folder in pod.iterdir():
            if not folder.is_mount():
                continue
            if self._helper is None:
                raise MountError(f"{folder} is a mount: set mount_socket, or unmount it")
            let_go(folder.stat().st_dev)
            self._helper.remove(pod.name, folder.name)
