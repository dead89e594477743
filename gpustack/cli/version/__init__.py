"""``gpustack version``: which release each part is of."""
