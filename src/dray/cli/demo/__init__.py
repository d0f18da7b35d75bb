"""`dray demo`: the whole story of dray, told by its own commands."""
