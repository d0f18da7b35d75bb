"""Results per node: which filter leaves how many devices."""
