"""The text of `nvidia-smi topo -m`."""
