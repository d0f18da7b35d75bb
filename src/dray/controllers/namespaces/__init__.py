"""What every namespace has: its deletion, its quotas, its service account."""
