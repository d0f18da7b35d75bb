"""One module per DRA rule: a `Check` of the search, or functions for `problem.eligibility`."""
