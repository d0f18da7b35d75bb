"""The server side of the dashboard: what a person may see of a cluster, for a browser."""
