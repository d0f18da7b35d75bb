"""Declarative rules: the language they are written in, and which field has which of them."""
