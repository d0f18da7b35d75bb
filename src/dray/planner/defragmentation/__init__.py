"""Finds the fewest pods to move so that a node is empty or other pods fit."""
