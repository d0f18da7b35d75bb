"""The drivers that come with dray, each in its own package."""
