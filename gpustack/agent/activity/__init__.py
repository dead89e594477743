"""What containers do with their shares: seen from outside, told to their hooks, and reported."""
