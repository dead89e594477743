"""From the kubelet's anonymous Allocate call to a container with its cards and limits."""
