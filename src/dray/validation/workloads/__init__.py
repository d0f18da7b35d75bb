"""Rules for what makes pods: Deployments, StatefulSets, DaemonSets, Jobs."""
