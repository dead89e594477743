"""The host itself: its cards, their health, its driver files, and what is published of it."""
