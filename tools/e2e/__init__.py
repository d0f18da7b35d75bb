"""Runs Kubernetes' own e2e suite, as it was built, against a fresh dray."""
