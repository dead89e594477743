"""Tests of the testbed's own parts that need no hosts."""
