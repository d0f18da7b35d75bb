"""Finds what is wrong with a cluster's objects: for `dray doctor` and the dashboard."""
