"""The ``gpustack`` command: who uses what, why a pod waits, a snapshot to ask the same offline."""
