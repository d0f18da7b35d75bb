"""HTTPS connections: accepting them, and closing those that hold a place without using it."""
