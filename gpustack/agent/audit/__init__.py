"""The comparison of everything that says which container holds which card."""
