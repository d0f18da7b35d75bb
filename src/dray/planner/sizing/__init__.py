"""Finds how many machines a cluster lacks."""
