"""`dray doctor`: what is wrong with a cluster, and how to mend it."""
