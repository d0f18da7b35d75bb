"""The parts of `dray mcp`."""
