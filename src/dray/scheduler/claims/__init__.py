"""The claims of pods: find devices for them and write the allocations."""
