"""The containers that the original manager answered Allocate for, by the kubelet's checkpoint.

The original mounts the folder of the pod below its own, by the pod's UID, at /etc/vcuda; nothing
of ours is mounted there. The kubelet keeps that answer for as long as the pod is there.
"""

import logging
import pathlib
from typing import Final

from gpustack.agent.identification.process_owners import Owner
from gpustack.agent.kubelet.checkpoint import (
    Given,
    KubeletCheckpoint,
    KubeletCheckpointError,
    KubeletCheckpointMissing,
)

logger = logging.getLogger(__name__)

CONTAINER_PATH: Final = "/etc/vcuda"

_Stamp = tuple[int, int, int]  # inode, size, modification time in ns


class OriginalContainers:
    """Reads the checkpoint again when it has changed.

    Args:
        checkpoint: the kubelet's.
        folder: where the original has the folders of its pods.
    """

    def __init__(self, checkpoint: KubeletCheckpoint, folder: pathlib.Path) -> None:
        self._checkpoint = checkpoint
        self._folder = folder
        self._stamp: _Stamp | None = None
        self._found: frozenset[Owner] = frozenset()

    def now(self) -> frozenset[Owner]:
        """Return them; those of the last readable checkpoint where it can't be read."""
        if not self._folder.is_dir():
            return frozenset()  # the original was never here, and the checkpoint needn't be read
        stamp = self._look()
        if stamp is not None and stamp != self._stamp:
            try:
                given = self._checkpoint.given()
            except KubeletCheckpointMissing:
                return self._found
            except KubeletCheckpointError as error:
                logger.warning("not known which containers are the original's: %s", error)
                return self._found
            self._found = frozenset(
                (each.pod_uid, each.container) for each in given if self._is_one(each)
            )
            self._stamp = stamp
        return self._found

    def has(self, pod_uid: str, container: str) -> bool:
        """Say whether a container is one of them."""
        return (pod_uid, container) in self.now()

    def _is_one(self, given: Given) -> bool:
        source = given.mounts.get(CONTAINER_PATH)
        return source is not None and pathlib.Path(source) == self._folder / given.pod_uid

    def _look(self) -> _Stamp | None:
        try:
            found = self._checkpoint.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
