"""Jobs: their pods, their progress, and their end."""
