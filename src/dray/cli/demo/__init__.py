"""`dray demo`: a guided tour of dray with its own commands."""
