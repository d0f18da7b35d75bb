"""Jobs: which pods they make, how far they are, and when they are over."""
