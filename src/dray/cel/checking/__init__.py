"""Types, literals, costs and constants: all that is known before an expression runs."""
