"""What keeps pods running: Deployment, ReplicaSet, StatefulSet, DaemonSet, and what they share."""
