"""Throughput of one API server: over HTTPS by a load of its own process, and without a socket."""
