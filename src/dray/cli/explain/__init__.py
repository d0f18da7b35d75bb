"""`dray explain`: why pods and claims wait or fail, and what would help."""
