"""Checks and builds what a release of dray publishes: `make release VERSION=x`."""
