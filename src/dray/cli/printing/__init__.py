"""Objects and values as text: tables, JSON, YAML, JSONPath, durations."""
