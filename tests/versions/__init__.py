"""Agent, extender and hook of neighbouring releases beside each other, as processes on sockets."""
