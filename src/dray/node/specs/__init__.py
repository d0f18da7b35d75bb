"""Inputs of a container: its environment, volumes and rights."""
