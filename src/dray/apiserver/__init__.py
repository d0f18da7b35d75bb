"""The API from inside: one request path, generic over kinds."""
