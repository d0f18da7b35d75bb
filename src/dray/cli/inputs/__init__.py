"""What commands read: manifests, and the objects of a cluster or a file."""
