"""Writes to single pods at the API server, one at a time each."""
