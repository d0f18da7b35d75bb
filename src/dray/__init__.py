"""Kubernetes Dynamic Resource Allocation, complete, in Python."""

__version__ = "0.1.0"
