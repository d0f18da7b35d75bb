"""Traces: the nodes of a cluster, and the pods that arrived there."""
