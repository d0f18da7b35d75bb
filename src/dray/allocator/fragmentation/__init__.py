"""Fragmentation: the free devices that the claims of a cluster are not expected to use."""
