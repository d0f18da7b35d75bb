"""Explanations: counts, causes, changes that would help, and their text."""
