"""What the extender costs a cluster: a real API server, a real scheduler, a full fleet."""
