"""The original manager's registration service, for pods that were started under it."""

from gpustack.adapters.vcuda.peer_relay import Caller, RelayBounds
from gpustack.adapters.vcuda.server import Registration, RegistrationRefused, VcudaServer

__all__ = ["Caller", "Registration", "RegistrationRefused", "RelayBounds", "VcudaServer"]
