"""Changes a cluster on paper, and says what the change does to its pods and what is left."""
