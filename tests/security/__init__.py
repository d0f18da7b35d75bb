"""Attacks on a running dray, and that each of them fails."""
