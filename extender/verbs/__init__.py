"""What kube-scheduler asks, one module a verb: bytes of a request in, bytes of an answer out."""
