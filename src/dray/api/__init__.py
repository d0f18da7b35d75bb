"""The API as it is on the wire: kinds, fields, versions, defaults, selectors, errors."""
