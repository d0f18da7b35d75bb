"""Explain preemption: which pods a waiting pod would have evicted, or why that does not help."""
