"""One pod on a node: its worker, its containers, its volumes and its status."""
