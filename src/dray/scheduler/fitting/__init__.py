"""Where a pod fits: what it needs, what nodes and devices offer, which node is best."""
