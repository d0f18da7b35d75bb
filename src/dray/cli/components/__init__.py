"""Commands that run a part of the cluster as a process of its own."""
