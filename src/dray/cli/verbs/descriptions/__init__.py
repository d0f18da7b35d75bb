"""`dray describe`: the command, and descriptions of pods, nodes and devices."""
