"""Tests of gpustack.model: properties first, then the worked examples."""
