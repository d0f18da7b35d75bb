"""Serving under load: connections, fairness between users, and their limits."""
