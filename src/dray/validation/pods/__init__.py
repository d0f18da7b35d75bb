"""Rules for pods: containers, volumes, claims, and where a pod may run."""
