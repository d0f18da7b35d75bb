"""The objects on the wire, one module per API group or subject."""
