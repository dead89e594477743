"""The extender's own process beside a real control plane, while things break under load."""
