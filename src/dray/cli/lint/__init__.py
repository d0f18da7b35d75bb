"""`dray lint`: what is wrong with manifests, where, and how to write it."""
