"""Plans: what more pods, other nodes, a drain or another policy would bring."""
