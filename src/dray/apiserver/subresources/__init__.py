"""Subresources and reviews: binding, eviction, scale, tokens, logs."""
