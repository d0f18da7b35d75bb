"""`dray bench`."""
