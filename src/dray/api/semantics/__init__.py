"""The meaning of several fields of an object together."""
