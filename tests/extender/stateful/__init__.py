"""No card twice, no pod forgotten: a model of everything that happens to an extender."""
