"""Programs that the tests run in a process of their own, with the hook preloaded and without."""
