"""The agent's own socket: gRPC services for root on this host."""

from gpustack.adapters.control.control_service import ControlClient, control_service
from gpustack.adapters.control.messages import (
    CardChange,
    CardStatus,
    Control,
    ControlRefusal,
    ControlUnavailable,
)
from gpustack.adapters.control.server import ControlServer, Service

__all__ = [
    "CardChange",
    "CardStatus",
    "Control",
    "ControlClient",
    "ControlRefusal",
    "ControlServer",
    "ControlUnavailable",
    "Service",
    "control_service",
]
