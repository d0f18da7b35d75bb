"""One module per DRA rule, each a `Check` of the search."""
