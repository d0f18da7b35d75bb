"""`dray plan replay`: place a trace under several policies and compare them."""
