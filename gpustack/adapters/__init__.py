"""One outside system each: NVML, the kubelet's sockets, the container runtime, cgroups, files.

Adapters translate between an outside system and the types of the model; they decide nothing and
do not know each other.
"""
