"""The function libraries of cel-go's `ext` package."""
