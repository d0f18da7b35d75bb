"""What stands between a well-formed request and the store: one module per admission rule."""
