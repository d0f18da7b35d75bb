"""Limits of containers: control groups of version 1 or 2, and rlimits where there is neither."""
