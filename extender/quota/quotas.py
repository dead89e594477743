"""Which quota is in force: that of the ConfigMap, or what holds while it can't be used."""

import logging
from collections.abc import Mapping
from typing import Any

from extender.cache.cache import ClusterCache
from extender.errors import CannotDecide
from gpustack.wire.quota import BadQuota, decode_quota

logger = logging.getLogger(__name__)


class Quotas:
    """Takes the ConfigMap as it comes and gives the cache its quota.

    Attributes:
        problem: why the ConfigMap can't be used, and which it is; empty when it can.
    """

    def __init__(self, cache: ClusterCache, *, deny: bool) -> None:
        """Begin before the ConfigMap has been read.

        With ``deny``, pods are refused while the ConfigMap can't be used; without it, the last
        quota that could be used holds. Before the first one pods are refused anyway: a restart
        must lift no limits.
        """
        self.problem = ""
        self._cache = cache
        self._deny = deny
        self._looked = False

    @property
    def refuses(self) -> bool:
        """No pod that asks for a GPU gets one until the ConfigMap is mended."""
        return bool(self.problem) and (self._deny or not self._looked)

    @property
    def consequence(self) -> str:
        """What holds while there is a problem, in words."""
        if self.refuses:
            return "pods with GPUs are refused until it is mended"
        return "the last quota that could be used stays in force"

    def take(self, config_map: Mapping[str, Any] | None) -> None:
        """Let a ConfigMap hold from now on; None when there is none, which is no quota."""
        try:
            quota = decode_quota(config_map)
        except BadQuota as error:
            self.problem = f"{_title(config_map)}: {error}"
            logger.warning("quota can't be used error=%s; %s", self.problem, self.consequence)
            return
        self.problem = ""
        self._looked = True
        self._cache.set_quota(quota)
        logger.info("quota in force namespaces=%d", len(quota.namespaces))

    def refuse_unknown(self) -> None:
        """Refuse to decide while it is unknown what is allowed.

        Raises:
            CannotDecide: the ConfigMap can't be used, and no earlier one stands in for it.
        """
        if self.refuses:
            raise CannotDecide("QuotaUnreadable", f"the quota can't be used: {self.problem}")


def _title(config_map: Mapping[str, Any] | None) -> str:
    """Return how messages name a ConfigMap: readers may not know where the quota stands."""
    metadata = (config_map or {}).get("metadata", {})
    return f"ConfigMap {metadata.get('namespace', '')}/{metadata.get('name', '')}"
