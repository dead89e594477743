"""Driving a bench cluster from outside, as an operator and a user would."""
