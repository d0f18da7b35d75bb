"""What several fields of an object mean together."""
