"""The pages of single objects: pods, claims, nodes and devices."""
