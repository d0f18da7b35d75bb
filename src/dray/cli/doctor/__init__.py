"""`dray doctor`: finds problems of a cluster, and repairs them."""
