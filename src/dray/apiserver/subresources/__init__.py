"""What lies below an object: binding, eviction, scale, tokens, reviews."""
