"""`dray conformance`."""
