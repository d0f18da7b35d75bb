"""`dray lint`: finds errors in manifests, with their lines and corrections."""
