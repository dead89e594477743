"""Figures that ``make bench`` measures and writes down; no test asserts one."""
