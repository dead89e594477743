"""NVIDIA's real driver, from Debian's own archive: `make system-slow`."""
