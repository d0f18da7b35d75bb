"""The history of a cluster's devices: a recorder, the file that it writes, and queries."""
