"""The projects of `dray driver new`."""
