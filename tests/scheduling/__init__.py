"""Real schedulers, a real API server, our extender: who gets which cards, what people read."""
