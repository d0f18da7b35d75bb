"""Drivers for the conformance suite to check: dray's own, and some with one planted fault each."""
