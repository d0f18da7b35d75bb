"""What a release publishes: built, and then used as on a machine without the repository."""
