"""Claims of a pod: whether they are ready, what they need, and what a node gives them."""
