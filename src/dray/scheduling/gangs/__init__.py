"""The complete search for the nodes and devices of a gang."""
