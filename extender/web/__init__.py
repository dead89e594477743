"""HTTP: the paths that are answered, and how errors become answers."""
