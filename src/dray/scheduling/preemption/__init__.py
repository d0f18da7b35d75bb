"""Preemption: the pods to evict so that a pod with a higher priority fits."""
