"""Workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet, PodGroup, and their common parts."""
