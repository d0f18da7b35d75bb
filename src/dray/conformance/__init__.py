"""A conformance suite for drivers: checks of any DRA driver over its sockets, files and API.

The driver runs as its own process on a node without containers and without hardware needs: dray
starts an API server, allocates devices to claims and calls the driver as a node agent does.
"""
