"""The planner: what would fit, and which policy wastes least. Pure; randomness comes from a seed."""
