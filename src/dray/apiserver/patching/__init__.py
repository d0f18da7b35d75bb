"""The four ways to patch, and who manages which field."""
