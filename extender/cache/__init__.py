"""The cluster as the watches show it, what is promised of it, and answers that are remembered."""
