"""`dray mcp` with the client of the official package."""
