"""Where pods run: chooses a node and devices for each pod, writes both, says why not."""
