"""Metrics, health and usage over HTTP."""
