"""The solver: backtracking, proofs that nothing fits, results."""
