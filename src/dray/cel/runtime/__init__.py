"""Values of CEL, and the operations that compiled code calls."""
