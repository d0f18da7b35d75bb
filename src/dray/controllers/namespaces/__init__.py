"""Loops over namespaces: deletion, quotas, service accounts."""
