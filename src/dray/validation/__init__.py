"""Is this object allowed: every rule returns all its errors, each with its field path."""
