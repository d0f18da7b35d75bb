"""Python code for checked expressions: what it calls, how it is written, its two forms."""
