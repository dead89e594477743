"""Schedulers beside the testbed's own; after the other tests, which need the site as it is."""
