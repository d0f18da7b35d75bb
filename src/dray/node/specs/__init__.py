"""What a container is given: its environment, volumes and rights."""
