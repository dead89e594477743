"""What containers do against their limits: found, reported, and acted on."""
