"""Objects of the Kubernetes API, decoded to what we read of them and checked."""
