"""`dray plan defrag`."""
