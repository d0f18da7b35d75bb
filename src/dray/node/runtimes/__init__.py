"""One module for each way to run a container."""
