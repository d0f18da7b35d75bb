"""Text formats of single values, with those of Go."""
