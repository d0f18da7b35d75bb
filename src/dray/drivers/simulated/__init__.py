"""Fleets that exist in name only, described in short YAML."""
