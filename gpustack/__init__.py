"""Fractional, isolated, topology-aware NVIDIA GPUs for Kubernetes on bare metal.

The layers run one way: ``model`` (pure decisions), ``wire`` (bytes and JSON), ``adapters`` (one
outside system each), then ``agent``, ``cli`` and the top-level package ``extender``.
"""

__version__ = "0.1.0"
