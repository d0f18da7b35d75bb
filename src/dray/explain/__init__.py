"""Why not, and what would help: refusals become counts, causes, changes and sentences."""
