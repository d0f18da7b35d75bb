"""How many more pods fit, what limits their number, and what is free but of no use."""
