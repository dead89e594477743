"""Pods that were refused, and when the scheduler is to look at them again."""
