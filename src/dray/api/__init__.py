"""What travels on the wire: kinds, fields, versions, defaults, quantities, selectors and errors."""
