"""Whose container is it: all that happens to one node's agent, in any order."""
