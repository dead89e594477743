"""The checks of a cluster, from outside."""
