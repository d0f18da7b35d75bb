"""Facts about every field: types, merge rules, documentation, OpenAPI."""
