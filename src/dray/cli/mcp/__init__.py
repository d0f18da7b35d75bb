"""`dray mcp`: read-only tools for assistants, over the Model Context Protocol."""
