"""A whole cluster in one process."""
