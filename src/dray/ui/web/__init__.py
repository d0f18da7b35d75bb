"""HTTP of the dashboard: log in, sessions, static files, the stream, and who may ask for what."""
