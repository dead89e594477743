"""``gpustack top``: what cards and containers use now, against what they are guaranteed."""
