"""Replay: places the pods of a trace one by one under a policy."""
