"""Connections of clients to the ports of pods."""
