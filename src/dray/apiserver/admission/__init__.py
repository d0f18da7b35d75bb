"""The admission chain and its rules."""
