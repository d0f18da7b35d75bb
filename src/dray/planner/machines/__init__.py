"""Machines that could be added to a cluster."""
