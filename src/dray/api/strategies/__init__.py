"""The fields of each kind that the server sets itself, whatever the client sent."""
