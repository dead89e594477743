"""The states of the host's cards: why one takes no new work, since when, and what ends it."""
