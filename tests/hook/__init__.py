"""Tests of the hook: built by make, run under the loader as a container would."""
