"""Stand-ins for outside systems that answer on real sockets by the real systems' rules."""
