"""Kubernetes' declarative validation rules."""
