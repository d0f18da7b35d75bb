"""The generic verbs: get, list, watch, create, update, patch, delete."""
