"""Who may use a cluster: credentials and their end."""
