"""Files that a person names: objects, snapshots, traces."""
