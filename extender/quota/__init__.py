"""The quota in force, and what namespaces hold of it."""
