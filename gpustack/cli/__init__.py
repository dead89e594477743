"""The ``gpustack`` command: the use of cards, why a pod waits, and a snapshot for both offline."""
