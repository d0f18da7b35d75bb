"""The function libraries of Kubernetes 1.37's environment, one module per library."""
