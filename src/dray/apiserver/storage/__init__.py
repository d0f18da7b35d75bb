"""Between objects and the store: keys, encoding, caches, device holds."""
