"""Which container an anonymous call of the kubelet means, and whose a process is."""
