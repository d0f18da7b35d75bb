"""A connection to a cluster, and the objects that a command names."""
