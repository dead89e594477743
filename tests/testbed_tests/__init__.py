"""Tests of the bench's own parts that need no hosts."""
