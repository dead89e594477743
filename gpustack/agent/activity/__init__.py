"""The use of shares by containers: sampled from outside, published to their hooks, and reported."""
