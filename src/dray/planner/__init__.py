"""The planner: what would fit, and which policy wastes least. Pure: a seed gives the randomness."""
