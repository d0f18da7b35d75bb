"""Read and write the text of CEL selectors."""
