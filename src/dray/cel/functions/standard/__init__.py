"""The functions and operators of the language itself."""
