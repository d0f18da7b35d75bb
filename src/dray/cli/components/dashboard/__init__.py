"""`dray ui`, and the dashboard of `dray up`."""
