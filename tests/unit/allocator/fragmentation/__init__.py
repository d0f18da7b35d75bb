"""Tests of dray.allocator.fragmentation."""
