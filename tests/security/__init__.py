"""Attacks on a running dray, and that they fail."""
