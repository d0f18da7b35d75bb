"""Output formats: tables, JSON, YAML, JSONPath."""
