"""Files: those that a person names (objects, snapshots, traces), and safe reads and writes."""
