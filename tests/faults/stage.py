"""What every fault needs: a control plane, and an extender of one's own beside it."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from gpustack.adapters.kube import KubeClient
from tests.control_plane import extending, plane
from tests.faults import load, proxy


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where one test plays.

    Attributes:
        control: the control plane, the same for all tests.
        client: an administrator's.
        kubeconfig: the extender's identity.
        folder: the test's own.
    """

    control: plane.ControlPlane
    client: KubeClient
    kubeconfig: pathlib.Path
    folder: pathlib.Path

    @contextlib.contextmanager
    def extender(
        self,
        *,
        kubeconfig: pathlib.Path | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Iterator[extending.RunningExtender]:
        """Run an extender as long as the block does, and see that nothing was beyond it."""
        identity = kubeconfig or self.kubeconfig
        with extending.start(
            self.folder, identity, environment=environment, **settings
        ) as extender:
            yield extender
            assert "Traceback" not in extender.process.log.read_text()

    @contextlib.contextmanager
    def loaded(
        self, name: str, **options: Any
    ) -> Iterator[tuple[extending.RunningExtender, load.Load]]:
        """Run an extender under load, and judge what became of it."""
        with (
            self.extender(**options) as extender,
            load.running(self.client, extender.port, name) as pods,
        ):
            yield extender, pods

    @contextlib.contextmanager
    def behind_proxy(
        self, name: str
    ) -> Iterator[tuple[proxy.Proxy, extending.RunningExtender, load.Load]]:
        """Do the same with the network to the API server in the test's hands."""
        with (
            proxy.before(self.kubeconfig, self.folder) as (network, through),
            self.loaded(name, kubeconfig=through) as (extender, pods),
        ):
            yield network, extender, pods
