"""The four patch types, and managed fields."""
