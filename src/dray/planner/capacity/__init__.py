"""Counts how many more pods fit, and finds what limits them and what is free but of no use."""
