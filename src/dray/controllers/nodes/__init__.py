"""Nodes that appear, disappear or are lost, and the eviction of their pods."""
