"""The rules and the dashboard for the figures of the exporter."""
