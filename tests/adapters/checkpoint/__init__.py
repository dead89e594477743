"""The records' file: what it holds, and what any crash leaves of it."""
