"""A real Kubernetes control plane as plain processes on loopback: no hosts, no kubelet, no root."""
