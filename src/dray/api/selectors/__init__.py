"""Selectors for labels, fields and nodes: parse and match."""
