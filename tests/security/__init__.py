"""Attacks on dray, and what holds against them."""
