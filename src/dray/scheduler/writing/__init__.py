"""What was decided is written: reserved in memory first, given back where the server refuses."""
