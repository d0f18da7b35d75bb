"""Container runtimes, one module each."""
