"""A cluster as a whole: what there is, and what would be if there were more or less."""
