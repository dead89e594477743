"""Fuzz one target: python -m tests.fuzz NAME [OPTIONS OF LIBFUZZER], such as -runs=1000000.

It runs until it is stopped, or for -runs inputs; a finding ends it with an error and its input.
"""

import importlib
import pathlib
import sys
import tempfile

import atheris

from tests.fuzz import harness

# Only Python is instrumented: the decoders of msgspec and protobuf are compiled.
with atheris.instrument_imports(include=["gpustack", "extender", "tests.fuzz.planted"]):
    target = importlib.import_module(f"tests.fuzz.{sys.argv[1]}").TARGET

with tempfile.TemporaryDirectory(prefix="gs.fuzz.") as folder:
    harness.run(target, sys.argv[2:], pathlib.Path(folder))
