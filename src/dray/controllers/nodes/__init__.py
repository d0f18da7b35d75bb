"""Nodes that come, go or are lost, and what becomes of their pods."""
