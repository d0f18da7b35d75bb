"""What the server decides about each kind, whatever the client sent."""
