"""Claims after resolution, and the problem that they pose on one node."""
