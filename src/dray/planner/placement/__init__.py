"""Places pods in a cluster as its scheduler would."""
