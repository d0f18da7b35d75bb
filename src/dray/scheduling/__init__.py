"""The scheduling decision: what a pod requires, which nodes it fits, and how they are scored."""
