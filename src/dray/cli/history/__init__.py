"""`dray history` and `dray record`: who held which device when."""
