"""This node's pods as the API server has them, and the queue of our patches to them."""
