"""Turns submitted objects into the pods and claims that controllers would make of them."""
