"""Admission rules that fill in and bound new pods by objects of the cluster."""
