"""Drivers on a node, and the claims that they prepare."""
