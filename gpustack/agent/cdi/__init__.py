"""Device nodes by the names of the Container Device Interface (CDI)."""
