"""Policies: which node and which GPUs a pod gets, of those where it fits."""
