"""``gpustack doctor``: what is wrong, on a cluster or on this host, and how to mend it."""
