"""The original manager's part for pods that were started under it, while a node moves to us."""
