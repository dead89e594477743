"""Real schedulers, a real API server, our extender: each pod's cards, and what people read."""
