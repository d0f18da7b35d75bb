"""The API server: one request path for all kinds."""
