"""The host itself: its cards, their health, its driver files, and its node's annotation."""
