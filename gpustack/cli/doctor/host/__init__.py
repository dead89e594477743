"""The checks of a host, on it."""
