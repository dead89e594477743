"""Tests of gpustack.wire: bytes and JSON to model types and back."""
