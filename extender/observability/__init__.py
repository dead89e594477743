"""What became of a question: metrics, Events, the log of decisions."""
