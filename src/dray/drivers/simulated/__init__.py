"""Simulated fleets, described in short YAML."""
