"""Partition requests, an extension of the API by dray: parts of devices by size, as plain DRA."""
