"""The state that the dashboard shows of a cluster, kept current with every change of it."""
