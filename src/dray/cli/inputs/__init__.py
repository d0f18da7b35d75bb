"""Inputs of commands: manifests, and the objects of a cluster or a file."""
