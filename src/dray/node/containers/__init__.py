"""Container processes, their files and their streams."""
