"""What is known of every field: types, merge rules, documentation, OpenAPI."""
