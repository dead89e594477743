"""Driving a testbed cluster from outside, as an operator and a user would."""
