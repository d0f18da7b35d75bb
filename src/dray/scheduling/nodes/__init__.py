"""Nodes: what a pod requires of one, which nodes fit, and how they are scored."""
