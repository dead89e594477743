"""Bytes and JSON to model types and back: annotations, mapped files, configuration, bodies.

Input is checked against its schema or format; every error names the key or field and
what is allowed there.
"""
