"""Build steps and long-running checks that are no part of dray itself."""
