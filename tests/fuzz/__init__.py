"""Coverage-guided fuzzing of the parsers that read what tenants, nodes and other programs write."""
