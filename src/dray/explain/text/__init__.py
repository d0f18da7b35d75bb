"""Explanations of claims as text."""
