"""`dray plan nodes`: the fewest machines with which pods fit."""
