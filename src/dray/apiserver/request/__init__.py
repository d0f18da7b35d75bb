"""The parsed request: its verb, options and body."""
