"""A complete Python implementation of Kubernetes Dynamic Resource Allocation."""

__version__ = "0.1.0"
