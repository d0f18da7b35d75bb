"""The controllers: loops that bring the actual state of the cluster to the desired state."""
