"""The containers of a PreStartContainer call, and whether the kubelet agrees.

The call names device IDs only. The kubelet's checkpoint names their pod by UID and has the answer
that the kubelet keeps for the container; the check compares both with the records. Allocate had to
infer the pod, and this check proves the inference. Where it was wrong, the kubelet keeps an answer
that was made for another pod and can't be taken back: the agent fails the pod, so that its
controller makes another.

Every kubelet that we support writes that file before it starts a container. Where the file is
unusable all the same, the check asks PodResources, which goes by namespace and name, and the API
server, whether that name still is the recorded pod's. Where neither can say, no container starts;
the kubelet tries again.
"""

import logging
import os
import pathlib
from collections.abc import Sequence

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.adapters.hook_build import HookBuild, HookError
from gpustack.adapters.kube import KubeError, KubeUnavailable
from gpustack.adapters.podresources import PodResourcesLimited
from gpustack.agent.cluster.pods import Pod, PodView, uid_of
from gpustack.agent.containers import allocate_response
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.identification.pairing_refusals import Pair, PairingRefusals
from gpustack.agent.identification.runtime import KubeletView
from gpustack.agent.kubelet.checkpoint import Given, KubeletCheckpointError
from gpustack.model.errors import GpustackError
from gpustack.model.request import ContainerKind
from gpustack.wire.container_paths import HOOK_PATH, LIMITS_PATH
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished

logger = logging.getLogger(__name__)

_ASK_SECONDS = 2.0


class _MuteKubeletError(GpustackError):
    """The kubelet doesn't say which container holds which device."""


class PreStartCheck:
    """Compares records with the kubelet's own."""

    def __init__(
        self,
        *,
        keys: Keys,
        pods: PodView,
        records: AllocationRecords,
        kubelet: KubeletView,
        folders: LimitsFiles,
        refusals: PairingRefusals,
    ) -> None:
        self._keys = keys
        self._pods = pods
        self._records = records
        self._kubelet = kubelet
        self._folders = folders
        self._refusals = refusals
        self._hooks: dict[str, HookBuild] = {}  # by folder, as containers were given them

    def of(self, ids: Sequence[str]) -> list[Pair]:
        """Return the containers that hold exactly these `vcuda-core` IDs.

        There is more than one when an init container passed its IDs on to a container of its pod;
        the caller's work is then right for either.

        Raises:
            PluginRefusal: `NotAllocated` where no container was given them; `PairingMismatch` when
                the kubelet says that they belong to another container, or to a pod without a
                record; the pod that the kubelet means is failed then. `PairingUnproven` when
                neither source answers. `CardRenumbered` where its device nodes are other cards'
                now; the pod is failed then, too. `HostIncomplete` where its hook is gone, or isn't
                whole.
        """
        wanted = frozenset(ids)
        try:
            given = self._kubelet.given(self._keys.vcuda_core, wanted)
            problem = "the kubelet's checkpoint doesn't have these devices"
        except KubeletCheckpointError as error:
            given, problem = [], str(error)
        if given:
            return self._on_own_cards(self._written(given, wanted))
        logger.warning("pairing goes by names: %s", problem)
        try:
            return self._on_own_cards(self._named(wanted))
        except (KubeError, KubeUnavailable, PodResourcesLimited, _MuteKubeletError) as error:
            raise PluginRefusal("PairingUnproven", f"{problem}, and {error}") from error

    def _on_own_cards(self, pairs: list[Pair]) -> list[Pair]:
        """Refuse containers whose device nodes lead to other cards than those of their UUIDs.

        The kubelet keeps its answer with the old nodes for as long as the pod lives.
        """
        refusal = self._refusals.renumbered(pairs)
        if refusal is not None:
            raise refusal
        return pairs

    def _written(self, given: Sequence[Given], ids: frozenset[str]) -> list[Pair]:
        """Compare the checkpoint's entries of these devices with the records, by UID."""
        pairs, unrecorded, mistaken = [], [], []
        for each in given:
            if finished(self._pods.get(each.pod_uid) or {}):
                continue  # it starts no container any more
            record = self._records.get(each.pod_uid)
            container = None if record is None else record.container(each.container)
            if record is None or container is None or not _holds(record, container, ids):
                unrecorded.append(each.pod_uid)
            elif not self._is_own(each, container):
                mistaken.append(each.pod_uid)
            else:
                self._require_hook(each)
                pairs.append((record, container))
        if mistaken:
            problem = "the kubelet keeps what was given to another container"
            raise self._refusals.mismatch("PairingMismatch", problem, mistaken)
        if unrecorded := self._still_there(unrecorded):
            raise self._refusals.not_recorded(ids, unrecorded, {each.pod_uid for each in given})
        if not pairs:
            raise self._refusals.not_recorded(ids, ())
        return pairs

    def _still_there(self, uids: Sequence[str]) -> list[str]:
        """Drop pods that are gone: the kubelet's checkpoint has them until its next allocation."""
        if all(self._pods.get(uid) is not None for uid in uids):
            return list(uids)
        try:
            self._pods.refresh(_ASK_SECONDS)
        except (KubeError, KubeUnavailable) as error:
            logger.warning("not known whether a pod is gone pod_uids=%s: %s", uids, error)
            return list(uids)
        return [uid for uid in uids if self._pods.get(uid) is not None]

    def _is_own(self, given: Given, container: ContainerRecord) -> bool:
        """Say whether the answer that the kubelet keeps for a container was made for it.

        An answer of an earlier agent or of the original's manager has fewer fields; a missing field
        is no mismatch.
        """
        made_for = given.annotations.get(self._keys.vcuda_pod_uid)
        if made_for not in {None, given.pod_uid}:
            return False
        folder = self._folders.path(given.pod_uid, given.container)
        is_own = given.mounts.get(LIMITS_PATH) in {None, str(folder / "limits")}
        cards = given.annotations.get(self._keys.vcuda_device)
        return is_own and cards in {None, allocate_response.cards(container.placement)}

    def _require_hook(self, given: Given) -> None:
        """Refuse a share whose hook has gone from the host since its Allocate, or was damaged.

        containerd makes an empty folder in the place of what it shall mount and can't find, and
        ld.so passes over a preload like that, and over one that a power cut has emptied: the
        container would run without limits.

        Raises:
            PluginRefusal: `HostIncomplete`.
        """
        folder = given.mounts.get(HOOK_PATH)
        if folder is None:
            return
        files = f"{folder}/libvcuda.so", f"{folder}/ld.so.preload"
        missing = [file for file in files if not os.path.isfile(file)]
        if missing:
            raise PluginRefusal(
                "HostIncomplete",
                f"{', '.join(missing)} missing: put the build back (site.yml lays that of its"
                " bundle out, where no folder has its name), or delete the pod",
            )
        hook = self._hooks.setdefault(folder, HookBuild(pathlib.Path(folder)))
        try:
            hook.folder()
        except HookError as error:
            raise PluginRefusal("HostIncomplete", f"{error}; or delete the pod") from error

    def _named(self, ids: frozenset[str]) -> list[Pair]:
        """Compare the records with the answers of PodResources and the API server for their names.

        Raises:
            KubeError: the API server refuses.
            KubeUnavailable: the API server doesn't answer.
            PodResourcesLimited: the kubelet gets too many calls.
            _MuteKubeletError: the kubelet doesn't answer.
        """
        agreed = [pair for pair in self._records.with_core_ids(ids) if self._agrees(*pair, ids)]
        if agreed:
            return agreed
        raise self._refusals.not_recorded(ids, [uid_of(pod) for pod in self._owners(ids)])

    def _agrees(self, record: PodRecord, container: ContainerRecord, ids: frozenset[str]) -> bool:
        name = (record.namespace, record.name)
        if self._pods.is_gone(record.uid, name, _ASK_SECONDS):
            return False  # another pod has that name now
        pod = self._pods.get(record.uid) or _pod(record)
        answer = self._kubelet.devices((pod,))
        if answer is None:
            raise _MuteKubeletError("its PodResources socket doesn't answer")
        devices = answer[record.uid]
        if devices is None:
            return False
        is_init = container.placement.kind is ContainerKind.INIT
        if is_init and container.name not in devices.containers:
            # The kubelet doesn't list ordinary init containers. Only containers of the same pod
            # reuse their devices.
            return all(uid_of(pod) == record.uid for pod in self._owners(ids))
        return devices.ids(container.name, self._keys.vcuda_core) == ids

    def _owners(self, ids: frozenset[str]) -> list[Pod]:
        pods = tuple(pod for pod in self._pods.snapshot()[0] if not finished(pod))
        held = self._kubelet.active(pods) or {}
        return [
            pod
            for pod in pods
            if (devices := held.get(uid_of(pod))) is not None
            and any(devices.ids(name, self._keys.vcuda_core) == ids for name in devices.containers)
        ]


def _holds(record: PodRecord, container: ContainerRecord, ids: frozenset[str]) -> bool:
    """Say whether these are the recorded devices; a restored init container has none."""
    is_init = container.placement.kind is ContainerKind.INIT
    unknown = is_init and record.source is Source.RECOVERED and not container.core_ids
    return unknown or frozenset(container.core_ids) == ids


def _pod(record: PodRecord) -> Pod:
    """Return the key for the kubelet's API, for a pod that the watch has lost meanwhile."""
    return {"metadata": {"uid": record.uid, "namespace": record.namespace, "name": record.name}}
