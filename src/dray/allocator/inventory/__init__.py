"""The devices of the cluster as each node sees them, kept current."""
