"""Figures that ``make bench`` measures and writes to ``docs/benchmarks.md``; no test asserts one."""
