"""The Common Expression Language as Kubernetes 1.37 speaks it, compiled to Python."""
