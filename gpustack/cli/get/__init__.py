"""``gpustack get``: lists of pods, nodes, cards and quotas."""
