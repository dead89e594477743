"""What the agent costs a host: idle, beside many pods, and at the calls of the kubelet."""
