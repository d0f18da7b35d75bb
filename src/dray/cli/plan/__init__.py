"""`dray plan`."""
